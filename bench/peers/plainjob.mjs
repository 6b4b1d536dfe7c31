// plainjob on better-sqlite3, in the shape of child.py: node plainjob.mjs MODULES BODIES
//
// MODULES is the folder in which npm put both. Node has one thread, so there is no `threads` here.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, bodies] = process.argv.slice(2);
const require = createRequire(join(modules, "here.js"));
const Database = require("better-sqlite3");
const plainjob = await import(pathToFileURL(join(modules, "plainjob", "dist", "plainjob.js")));
const manifest = JSON.parse(readFileSync(join(modules, "plainjob", "package.json"), "utf8"));
const driver = JSON.parse(readFileSync(join(modules, "better-sqlite3", "package.json"), "utf8"));

const payloads = readFileSync(bodies, "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const TYPE = "order";
const [PENDING, PROCESSING] = [0, 1];
let queue, next, inside, worker, serving, heard;

const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function check(holds, what) {
  if (!holds) throw new Error(what);
}

function following(n) {
  const found = payloads.slice(next, next + n);
  check(found.length === n, "there are not so many payloads");
  for (const payload of found) inside.add(payload.number);
  next += n;
  return found;
}

function took(payload) {
  const number = payload.number;
  check(inside.delete(number), `message ${number} was handed out twice, or never put`);
}

async function measured(n, work) {
  const cpu = process.cpuUsage();
  const wall = now();
  await work();
  const spent = now() - wall;
  const { user, system } = process.cpuUsage(cpu);
  return { wall: spent, cpu: (user + system) * 1000, done: n };
}

const orders = {
  open(sync, n, folder) {
    mkdirSync(folder, { recursive: true });
    const connection = plainjob.better(new Database(join(folder, "plainjob.db")));
    queue = plainjob.defineQueue({ connection, logger: silent });
    connection.pragma(`synchronous = ${sync}`);
    next = Number(n);
    inside = new Set(Array(next).keys());
    return {};
  },
  close() {
    queue.close();
    return {};
  },
  put(n) {
    const given = following(Number(n));
    return measured(given.length, () => given.forEach((payload) => queue.add(TYPE, payload)));
  },
  many(n, batch) {
    const given = following(Number(n));
    const size = Number(batch);
    return measured(given.length, () => {
      for (let at = 0; at < given.length; at += size) {
        queue.addMany(TYPE, given.slice(at, at + size));
      }
    });
  },
  async take(n) {
    const taken = [];
    const answer = await measured(Number(n), () => {
      for (let i = 0; i < Number(n); i++) {
        const { id } = queue.getAndMarkJobAsProcessing(TYPE);
        taken.push(JSON.parse(queue.getJobById(id).data));
        queue.markJobAsDone(id);
      }
    });
    taken.forEach(took);
    return answer;
  },
  async work(ms) {
    const handled = [];
    const all = inside.size;
    const answer = await measured(0, async () => {
      const last = now() + Number(ms) * 1e6;
      const handle = (job) => {
        handled.push(JSON.parse(job.data));
        if (handled.length === all || now() > last) void worker.stop();
      };
      worker = plainjob.defineWorker(TYPE, handle, { queue, logger: silent });
      await worker.start();
    });
    handled.forEach(took);
    return { ...answer, done: handled.length };
  },
  count() {
    const found = queue.countJobs({ status: PENDING }) + queue.countJobs({ status: PROCESSING });
    check(found === inside.size, `${found} are left, and it should be ${inside.size}`);
    return { done: found };
  },
  listen() {
    heard = [];
    const handle = (job) => void heard.push([JSON.parse(job.data).number, now()]);
    worker = plainjob.defineWorker(TYPE, handle, { queue, logger: silent });
    serving = worker.start();
    return {};
  },
  idle(ms) {
    return measured(0, () => sleep(Number(ms)));
  },
  async ring(n, ms) {
    const rung = [];
    for (const payload of following(Number(n))) {
      await sleep(Number(ms) * (0.5 + Math.random()));
      queue.add(TYPE, payload);
      rung.push([payload.number, now()]);
    }
    return { rung };
  },
  async hear(n) {
    const last = now() + 5e9;
    while (heard.length < Number(n) && now() < last) await sleep(10);
    await worker.stop();
    await serving;
    check(new Set(heard.map(([number]) => number)).size === Number(n), `of ${n} came ${heard.length}`);
    return { heard };
  },
};

function say(answer) {
  process.stdout.write(JSON.stringify(answer) + "\n");
}

say({
  title: "plainjob, better-sqlite3",
  version: `${manifest.version}, ${driver.version}`,
  default: "normal",
  syncs: ["full", "normal"],
  acks: "back after 30 minutes",
  offers: ["put", "many", "take", "work", "listen"],
});
for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...rest] = line.split(" ");
  try {
    say(await orders[word](...rest));
  } catch (error) {
    say({ error: String(error) });
  }
}
process.exit(0);
