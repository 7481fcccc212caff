-- litellm-keys.sql
-- Prints a line of "polygate keys import" for each virtual key of LiteLLM's database.
SELECT json_strip_nulls(json_build_object(
  'id', coalesce(key.key_alias, left(key.token, 16)), 'apiKey', '[]'::json,
  'paused', key.blocked IS TRUE OR team.blocked IS TRUE OR key.budget_duration IS NOT NULL,
  'granted', CASE WHEN key.budget_duration IS NULL THEN round(key.max_budget * 1e6)::bigint END,
  'used', CASE WHEN key.budget_duration IS NULL THEN round(least(key.spend, key.max_budget) * 1e6)::bigint END,
  'models', common.models,
  'expiresAt', extract(epoch FROM key.expires)::bigint,
  'budget', CASE WHEN team.max_budget IS NOT NULL THEN team.team_id
    WHEN key.team_id IS NULL AND owner.max_budget IS NOT NULL THEN owner.user_id END,
  'metadata', json_build_object('litellm', key.token, 'group', key.team_id)
)) FROM "LiteLLM_VerificationToken" AS key LEFT JOIN "LiteLLM_TeamTable" AS team ON team.team_id = key.team_id
LEFT JOIN "LiteLLM_UserTable" AS owner ON owner.user_id = key.user_id
CROSS JOIN LATERAL (
  WITH lists AS (SELECT row_number() OVER () AS list, models
    FROM (VALUES (key.models), (team.models), (CASE WHEN key.team_id IS NULL THEN owner.models END)) AS each (models)
    WHERE models <> '{}' AND NOT models && ARRAY['all-proxy-models', 'all-team-models'])
  SELECT CASE WHEN EXISTS (SELECT FROM lists) THEN (SELECT coalesce(json_agg(model), '[]') FROM (
    SELECT model FROM lists, unnest(models) AS model GROUP BY model
    HAVING count(DISTINCT list) = (SELECT count(*) FROM lists) ORDER BY model) AS allowed) END AS models) AS common
WHERE key.team_id IS DISTINCT FROM 'litellm-dashboard';
