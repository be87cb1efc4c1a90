// Several Tron nodes of one local chain, over a running EVM node. See ../README.md.
//
//   node main.mjs http://127.0.0.1:8545 '{"ports": [0, 0], "solidLag": 2}'

import { createServer } from 'node:http';
import { Anvil, FEE_PROXY, TOKENS, contracts, deploy } from './anvil.mjs';
import { SLOT_MS, addressOfKey, keyOf } from './blocks.mjs';
import { base58, jsonText } from './bytes.mjs';
import { Chain } from './chain.mjs';
import { control, refusalOfPage } from './control.mjs';
import { jsonRpc } from './jsonrpc.mjs';
import { NodeView } from './view.mjs';
import { errorBody, walletCall } from './wallet.mjs';

const ACCOUNT_COUNT = 10;
const TRX_SUN = 1_000_000;
const HOLDING_TRX = 100_000;
const HOLDING_TOKEN_UNITS = '1000000000000000';
const LARGEST_BODY = 4 * 1024 * 1024;
const QUOTA_BODIES = {
  403: { Error: 'The key exceeds the frequency limit(15), and the query server is suspended for 1s' },
  429: { Error: 'request rate exceeded the allowed_rps(15), and the query server is suspended for 5s' },
  503: { Error: 'service unavailable' },
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LARGEST_BODY) throw Object.assign(new Error('the body is too large'), { status: 413 });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function readParams(text, type) {
  if (type?.startsWith('application/x-www-form-urlencoded') && !text.trimStart().startsWith('{')) {
    return Object.fromEntries(new URLSearchParams(text));
  }
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Object.assign(new Error(error.message), { kind: 'org.tron.json.JSONException' });
  }
}

/** A refusal by quota or a wrong error, if the node has such a lie; else `null`. */
function refusalOf({ quota, errorInOk }, path) {
  const concerns = (lie) => lie && (!lie.path || lie.path === path) && !(lie.times <= 0);
  for (const lie of [quota, errorInOk]) {
    if (!concerns(lie)) continue;
    if (lie.times !== undefined) lie.times -= 1;
    return lie === quota ? [lie.status, QUOTA_BODIES[lie.status] ?? {}] : [200, { Error: lie.message }];
  }
  return null;
}

async function respond(context, request) {
  const { pathname, searchParams } = new URL(request.url, 'http://node');
  const text = await bodyOf(request);
  const { view, chain } = context;
  if (pathname === '/_control') {
    const error = refusalOfPage(request.headers);
    if (error) return [403, { error }];
    try {
      return [200, await control(context, text ? JSON.parse(text) : {})];
    } catch (error) {
      return [400, { error: error.message }];
    }
  }
  await chain.follow(view.solidLag);
  if (view.lies.slow) await pause(view.lies.slow.ms);
  const refusal = refusalOf(view.lies, pathname);
  if (refusal) return refusal;
  if (pathname === '/jsonrpc') {
    if (request.method !== 'POST') return [405, {}];
    return [200, await jsonRpc(context, readParams(text))];
  }
  const found = walletCall(pathname);
  if (!found) return [404, { Error: `${pathname} is unknown` }];
  try {
    const isGet = request.method === 'GET';
    const params = isGet ? Object.fromEntries(searchParams) : readParams(text, request.headers['content-type']);
    const limit = view.limit(found.solid);
    return [200, await found.call({ ...context, params, solid: found.solid, limit })];
  } catch (error) {
    return [200, errorBody(error)];
  }
}

function serve(context, port) {
  const server = createServer(async (request, response) => {
    let status;
    let body;
    try {
      [status, body] = await respond(context, request);
    } catch (error) {
      [status, body] = [error.status ?? 500, { Error: error.message }];
    }
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' });
    response.end(`${jsonText(body)}\n`);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}

async function start(anvilUrl, options) {
  const { ports = [0], solidLag = 2, startTimeMs, clock = 'manual', endWithStdin, printBlocks } = options;
  if (endWithStdin) process.stdin.on('end', () => process.exit(0)).resume();
  const anvil = new Anvil(anvilUrl);
  const accounts = Array.from({ length: ACCOUNT_COUNT }, (_, index) => {
    const privateKey = keyOf(`account ${index}`);
    return { address: addressOfKey(privateKey), privateKey };
  });
  const holders = accounts.map(({ address }) => address);
  const tokenOwner = addressOfKey(keyOf('token owner'));
  await deploy(anvil, { tokenOwner, holders, holding: HOLDING_TOKEN_UNITS });
  // Without a time, the newest block of the start is at the slot of now.
  const createTime = startTimeMs ?? (Math.floor(Date.now() / SLOT_MS) - solidLag) * SLOT_MS;
  const chain = new Chain(anvil, createTime);
  for (const address of holders) chain.accounts.change(address, { balance: HOLDING_TRX * TRX_SUN, createTime });
  for (const address of contracts.keys()) chain.accounts.change(address, { isContract: true });
  await chain.start();
  // The newest and the solid block are never block 0, whose header has neither a number nor a time.
  await chain.mine(solidLag + 1);
  chain.clock = clock;
  if (printBlocks) chain.onBlock = ({ number }) => console.log(`block ${number}`);
  const apiUrls = [];
  for (const port of ports) {
    apiUrls.push(await serve({ chain, anvil, tokenOwner, view: new NodeView(chain, solidLag) }, port));
  }
  return {
    apiUrls,
    network: 'tron',
    accounts: accounts.map(({ address, privateKey }) => ({ address: base58(address), privateKey: `0x${privateKey}` })),
    contracts: { erc20FeeProxy: base58(FEE_PROXY) },
    tokens: Object.fromEntries(Object.entries(TOKENS).map(([symbol, { address }]) => [symbol, base58(address)])),
  };
}

const [anvilUrl, options = '{}'] = process.argv.slice(2);
if (!anvilUrl) {
  console.error('usage: node main.mjs <URL of the EVM node> [<options as JSON>]');
  process.exit(2);
}
console.log(JSON.stringify(await start(anvilUrl, JSON.parse(options))));
