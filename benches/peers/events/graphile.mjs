// graphile-worker: jobs that wait in PostgreSQL, fetched and completed in batches. The time ends when no job is left.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { CONCURRENCY, input, jobs, report, sender } from "./post.mjs";

const { url, secret, body, count, postgresUrl } = await input();
const pgPool = new pg.Pool({ connectionString: postgresUrl, max: 12 });
// graphile-worker expects the pool to have error handlers.
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
const waiting = jobs(count, body);
for (let from = 0; from < waiting.length; from += 1_000) {
  const part = waiting.slice(from, from + 1_000);
  await utils.addJobs(part.map((payload) => ({ identifier: "deliver", payload })));
}
await pgPool.query("ANALYZE");
const { post, close } = sender(url, secret);
const begun = performance.now();
const runner = await run({
  pgPool,
  logger,
  noHandleSignals: true,
  preset: {
    worker: {
      concurrentJobs: CONCURRENCY,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
  taskList: { deliver: post },
});
for (;;) {
  const { rows } = await pgPool.query("SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs) AS waits");
  if (!rows[0].waits) break;
  await new Promise((resolve) => setTimeout(resolve, 5));
}
report(count, begun);
await runner.stop();
await utils.release();
await pgPool.end();
await close();
