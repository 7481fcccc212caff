// my-limiter-laws.ts
import { manualClock, type OpenRateLimiter, rateLimiterLaws } from "polygate/testing";
import { myRateLimiter } from "./my-limiter.ts";

const open: OpenRateLimiter = (limits) => {
  const clock = manualClock();
  return { limiter: myRateLimiter({ ...limits, clock }), advance: (ms) => clock.advance(ms) };
};

for (const law of rateLimiterLaws) await law.verify(open); // Rejects if the law is broken.
console.log(`The limiter keeps ${rateLimiterLaws.length} laws.`);
