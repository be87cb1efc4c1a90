// Asks the wallet: accounts, networks, transactions one by one or in one confirmation (EIP-5792), and what became of them.

/** Something that the payer has to know; `kind` names its words. */
export class Trouble extends Error {
  constructor(kind, detail = '') {
    super(kind);
    this.kind = kind;
    this.detail = detail;
  }
}

const CAPABILITIES_MS = 1500;
const SLOW_AFTER_MS = 45_000;
const REPLACED_GRACE_MS = 1000;

export const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const ask = (wallet, method, params) => wallet.provider.request(params ? { method, params } : { method });
const quantity = (number) => '0x' + BigInt(number).toString(16);

/** Every place in which wallets and the libraries inside of them put the code of an error. */
function codes(error) {
  const all = [error, error?.error, error?.cause, error?.data, error?.data?.originalError, error?.info?.error];
  return all.map((one) => one?.code).filter((code) => code != null);
}

const said = (error) =>
  [error?.data?.originalError?.message, error?.data?.message, error?.message].filter(Boolean).join(' ').toLowerCase();

/** Wallets word the same thing in many ways: the codes that standards give, then what is written. */
export function troubleOf(error) {
  if (error instanceof Trouble) return error;
  const [code, text] = [codes(error), said(error)];
  const is = (known, words) => known.some((one) => code.includes(one)) || words.test(text);
  if (is([4001, 'ACTION_REJECTED'], /user (rejected|denied|cancel)|rejected by (the )?user|request rejected/)) {
    return new Trouble('rejected');
  }
  if (is([-32002], /already (pending|processing)|pending request/)) return new Trouble('busy');
  if (is([4902], /unrecognized chain|unknown chain|chain .*not .*added/)) return new Trouble('unknownNetwork');
  if (is([], /insufficient (funds|balance)|exceeds balance/)) return new Trouble('funds');
  if (is([3], /revert/)) return new Trouble('reverted');
  if (is([4900, 4901], /disconnected|failed to fetch|network error|timed? ?out/)) return new Trouble('connection');
  return new Trouble('other', String(code[0] ?? error?.name ?? ''));
}

/** The account of a wallet; asked quietly, only what it has already shown to this page, or `null`. */
export async function account(wallet, isQuiet) {
  const [first] = (await ask(wallet, isQuiet ? 'eth_accounts' : 'eth_requestAccounts')) ?? [];
  if (!first && !isQuiet) throw new Trouble('rejected');
  return first ?? null;
}

export async function isOnNetwork(wallet, network) {
  return BigInt(await ask(wallet, 'eth_chainId')) === BigInt(network.chainId);
}

/** Brings a wallet to a network, which is added where the wallet does not know it. */
export async function toNetwork(wallet, network) {
  const chainId = quantity(network.chainId);
  try {
    await ask(wallet, 'wallet_switchEthereumChain', [{ chainId }]);
  } catch (error) {
    const trouble = troubleOf(error);
    if (trouble.kind !== 'unknownNetwork' || !network.rpcUrl) {
      throw trouble.kind === 'busy' ? trouble : new Trouble('network');
    }
    const chain = {
      chainId,
      chainName: network.name,
      nativeCurrency: { name: network.coin, symbol: network.coin, decimals: 18 },
      rpcUrls: [network.rpcUrl],
      blockExplorerUrls: [new URL(network.explorer).origin],
    };
    await ask(wallet, 'wallet_addEthereumChain', [chain]).catch(() => Promise.reject(new Trouble('network')));
    // Some wallets add a network and stay where they were.
    if (!(await isOnNetwork(wallet, network))) {
      await ask(wallet, 'wallet_switchEthereumChain', [{ chainId }]).catch(() => {});
    }
  }
  if (!(await isOnNetwork(wallet, network))) throw new Trouble('network');
}

/** Whether a wallet says that it makes several calls in one transaction, now or after a question of its own. */
export async function canBundle(wallet, from, network) {
  const chainId = quantity(network.chainId);
  const asked = ask(wallet, 'wallet_getCapabilities', [from, [chainId]]).catch(() => null);
  const all = (await Promise.race([asked, pause(CAPABILITIES_MS)])) ?? {};
  const key = Object.keys(all).find((one) => /^0x[0-9a-f]+$/i.test(one) && BigInt(one) === BigInt(chainId));
  return ['supported', 'ready'].includes(all[key]?.atomic?.status);
}

const NOT_BUNDLED = [5700, 5710, 5720, 5740, 5750, 5760, 4200, -32601, -32602];

/** Sends calls that are made together or not at all; `null` when the wallet will not, and they go one by one. */
export async function bundle(wallet, from, network, steps) {
  const calls = steps.map(({ to, data, value }) => ({ to, data, value }));
  const wanted = { version: '2.0.0', from, chainId: quantity(network.chainId), atomicRequired: true, calls };
  try {
    const sent = await ask(wallet, 'wallet_sendCalls', [wanted]);
    return typeof sent === 'string' ? sent : sent.id;
  } catch (error) {
    if (codes(error).some((code) => NOT_BUNDLED.includes(code))) return null;
    throw error;
  }
}

/** `{ state: 'pending' | 'done' | 'failed' | 'reverted', hash }` of calls that were sent together. */
export async function bundleState(wallet, id) {
  const { status, receipts } = await ask(wallet, 'wallet_getCallsStatus', [id]);
  const code = typeof status === 'number' ? status : status === 'CONFIRMED' ? 200 : 100;
  const state = code < 200 ? 'pending' : code < 300 ? 'done' : code === 400 ? 'failed' : 'reverted';
  return { state, hash: receipts?.at(-1)?.transactionHash };
}

export const send = (wallet, from, { to, data, value }) =>
  ask(wallet, 'eth_sendTransaction', [{ from, to, data, value }]);

/** The turn that the next transaction of an account will have; `null` when nobody says so. */
export const nextTurn = (wallet, from) => ask(wallet, 'eth_getTransactionCount', [from, 'pending']).catch(() => null);

/**
 * What became of a transaction: `'done'`, `'reverted'`, or `'replaced'` when another one of the same account took its
 * turn, which may be the same payment at a higher price. `null` when `isOver` says that nobody waits any more. A node
 * forgets what was replaced, so `turn` is what it had when it was sent.
 */
export async function outcome(wallet, hash, from, { turn = null, isOver = () => false, slow = () => {} } = {}) {
  const quietly = (method, params) => ask(wallet, method, params).catch(() => null);
  const receipt = async () => {
    const found = await quietly('eth_getTransactionReceipt', [hash]);
    return found && (BigInt(found.status) === 1n ? 'done' : 'reverted');
  };
  const slowly = setTimeout(slow, SLOW_AFTER_MS);
  try {
    for (let wait = 400; !isOver(); wait = Math.min(wait + 150, 4000)) {
      const ended = await receipt();
      if (ended) return ended;
      const own = (await quietly('eth_getTransactionByHash', [hash]))?.nonce ?? turn;
      const used = own !== null && (await quietly('eth_getTransactionCount', [from, 'latest']));
      if (used && BigInt(used) > BigInt(own)) {
        await pause(REPLACED_GRACE_MS);
        return (await receipt()) ?? 'replaced';
      }
      await pause(wait);
    }
    return null;
  } finally {
    clearTimeout(slowly);
  }
}
