-- litellm-budgets.sql
-- Prints the commands that make the budgets of LiteLLM's teams and users, less what is spent.
SELECT format('npx polygate budgets create --amount %s%s --yes -- %s', amount, ' --period ' || CASE
  WHEN budget_duration IN ('1d', '24h') THEN 'day' WHEN budget_duration IN ('7d', '1w') THEN 'week'
  WHEN budget_duration IN ('30d', '1mo') THEN 'month' ELSE nullif(budget_duration, '') END, id)
  || CASE WHEN spent > 0 THEN format(E'\nnpx polygate budgets lower --yes -- %s %s', id, spent) ELSE '' END
FROM (SELECT $$'$$ || replace(owner, $$'$$, $$'\''$$) || $$'$$ AS id, budget_duration,
  max_budget::numeric(16, 6) AS amount, least(spend, max_budget)::numeric(16, 6) AS spent FROM (
  SELECT team_id AS owner, max_budget, spend, budget_duration FROM "LiteLLM_TeamTable"
  UNION ALL SELECT user_id, max_budget, spend, budget_duration FROM "LiteLLM_UserTable") AS owners) AS budgets
WHERE amount IS NOT NULL;
