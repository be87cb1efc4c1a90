// Wallets: discovery, accounts, networks, transactions one by one or in one confirmation (EIP-5792), and their outcome.

/** An error shown to the payer; `kind` names its texts. */
export class Trouble extends Error {
  constructor(kind, detail = '') {
    super(kind);
    this.kind = kind;
    this.detail = detail;
  }
}

const CAPABILITIES_MS = 1500;
const COUNT_MS = 3000;
const SLOW_AFTER_MS = 45_000;
const REPLACED_GRACE_MS = 1000;

export const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const ask = (wallet, method, params) => wallet.provider.request(params ? { method, params } : { method });
const quantity = (number) => '0x' + BigInt(number).toString(16);

/** Members in which wallets and their libraries nest one error inside another. */
const INSIDE = ['error', 'cause', 'data', 'originalError', 'info'];
const DEPTH_MAX = 6;
const LAYERS_MAX = 32;

/** An error and all errors nested in it, outermost first; empty if reading it throws. */
function layers(error) {
  const seen = new Set();
  const found = [];
  const take = (one, depth) => {
    if (!one || typeof one !== 'object' || depth > DEPTH_MAX || seen.size === LAYERS_MAX || seen.has(one)) return;
    seen.add(one);
    const { code, message, action, httpStatus } = one;
    found.push({ code: /^-?\d+$/.test(code) ? Number(code) : code, text: String(message ?? '').toLowerCase(), action, httpStatus });
    for (const name of INSIDE) take(one[name], depth + 1);
  };
  try {
    take(error, 0);
    return found;
  } catch {
    return [];
  }
}

/** Texts of nodes that already have the transaction, or may have it. */
const MAYBE_SENT = /already (known|imported|exists|in)|known transaction|nonce|underpriced|time.?out|timed out/;
/** Texts of wallets that have another request open and did not accept this one. */
const OPEN_ALREADY = /already (pending|processing)|pending request/;
const NOT_BUNDLED = [5700, 5710, 5720, 5740, 5750, 5760, 4200, -32601, -32602];

/**
 * The trouble that proves that a wallet sent nothing, or `null` if it may have sent the transaction. A text alone
 * proves nothing; a text of a node counts only with the code of its refusal. An error with an HTTP status comes from a
 * gateway, and the node behind it may already have the transaction. -32002 means an open request, but also an
 * unreachable node.
 */
export function refusalOf(error, isBundle) {
  const all = layers(error);
  const has = (...codes) => all.some(({ code }) => codes.includes(code));
  const nodeSaid = (words) => all.some(({ code, text }) => code <= -32000 && code >= -32099 && words.test(text));
  if (has(4001, 5000, 'ACTION_REJECTED')) return new Trouble('rejected');
  if (all.some(({ text, httpStatus }) => httpStatus != null || MAYBE_SENT.test(text))) return null;
  if (has(-32002)) return all.some(({ code, text }) => code === -32002 && OPEN_ALREADY.test(text)) ? new Trouble('busy') : null;
  if (isBundle && has(...NOT_BUNDLED)) return new Trouble('notBundled');
  if (has(4100, 4200, -32601, -32602)) return new Trouble('other', String(all[0].code ?? ''));
  if (has('INSUFFICIENT_FUNDS') || nodeSaid(/^(err(or)?: )?insufficient ?funds/)) return new Trouble('funds');
  const isRefusedEstimate =
    has(3, 'UNPREDICTABLE_GAS_LIMIT') ||
    all.some(({ code, action }) => code === 'CALL_EXCEPTION' && action === 'estimateGas') ||
    nodeSaid(/^(err(or)?: )?(intrinsic gas too low|gas required exceeds allowance|execution reverted|cannot estimate gas)/);
  return isRefusedEstimate ? new Trouble('reverted') : null;
}

/**
 * The trouble of a wallet call that sends nothing. Wallets report the same error in many ways, so this checks standard
 * codes first and then the text.
 */
export function troubleOf(error) {
  if (error instanceof Trouble) return error;
  const all = layers(error);
  const code = all.map((one) => one.code).filter((one) => one != null);
  const text = all.map((one) => one.text).join(' ');
  const is = (known, words) => known.some((one) => code.includes(one)) || words.test(text);
  if (is([4001, 'ACTION_REJECTED'], /user (rejected|denied|cancel)|rejected by (the )?user|request rejected/)) {
    return new Trouble('rejected');
  }
  if (is([-32002], OPEN_ALREADY)) return new Trouble('busy');
  if (is([4902], /unrecognized chain|unknown chain|chain .*not .*added/)) return new Trouble('unknownNetwork');
  if (is([], /insufficient (funds|balance)|exceeds balance/)) return new Trouble('funds');
  if (is([3], /revert/)) return new Trouble('reverted');
  if (is([4900, 4901], /disconnected|failed to fetch|network error|timed? ?out/)) return new Trouble('connection');
  return new Trouble('other', String(code[0] ?? error?.name ?? ''));
}

/** The account of a wallet. Quiet: only an account that the wallet already shares with this page, or `null`. */
export async function account(wallet, isQuiet) {
  const [first] = (await ask(wallet, isQuiet ? 'eth_accounts' : 'eth_requestAccounts')) ?? [];
  if (!first && !isQuiet) throw new Trouble('rejected');
  return first ?? null;
}

export async function isOnNetwork(wallet, network) {
  return BigInt(await ask(wallet, 'eth_chainId')) === BigInt(network.chainId);
}

/** Switches a wallet to a network and adds the network if the wallet does not know it. */
export async function toNetwork(wallet, network, isOn = isOnNetwork) {
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
    // Some wallets add a network without switching to it.
    if (!(await isOn(wallet, network))) {
      await ask(wallet, 'wallet_switchEthereumChain', [{ chainId }]).catch(() => {});
    }
  }
  if (!(await isOn(wallet, network))) throw new Trouble('network');
}

/** Whether a wallet reports that it can batch calls in one transaction, now or after its own prompt. */
export async function canBundle(wallet, from, network) {
  const chainId = quantity(network.chainId);
  const asked = ask(wallet, 'wallet_getCapabilities', [from, [chainId]]).catch(() => null);
  const all = (await Promise.race([asked, pause(CAPABILITIES_MS)])) ?? {};
  const key = Object.keys(all).find((one) => /^0x[0-9a-f]+$/i.test(one) && BigInt(one) === BigInt(chainId));
  return ['supported', 'ready'].includes(all[key]?.atomic?.status);
}

/** Sends calls that execute atomically; returns their id. */
export async function bundle(wallet, from, network, steps) {
  const calls = steps.map(({ to, data, value }) => ({ to, data, value }));
  const wanted = { version: '2.0.0', from, chainId: quantity(network.chainId), atomicRequired: true, calls };
  const sent = await ask(wallet, 'wallet_sendCalls', [wanted]);
  return typeof sent === 'string' ? sent : sent?.id;
}

/** Error codes of a wallet that does not know the calls or does not report on calls. */
const NO_CALLS = [5730, -32601];

/** `{ state: 'pending' | 'done' | 'failed' | 'reverted' | 'unknown', hash }` of batched calls. */
export async function bundleState(wallet, id) {
  let told;
  try {
    told = await ask(wallet, 'wallet_getCallsStatus', [id]);
  } catch (error) {
    return { state: layers(error).some(({ code }) => NO_CALLS.includes(code)) ? 'unknown' : 'pending' };
  }
  const { status, receipts } = told ?? {};
  const code = typeof status === 'number' ? status : status === 'CONFIRMED' ? 200 : 100;
  const state = code < 200 ? 'pending' : code < 300 ? 'done' : code === 400 ? 'failed' : code < 600 ? 'reverted' : 'unknown';
  return { state, hash: receipts?.at(-1)?.transactionHash };
}

export const send = (wallet, from, { chainId }, { to, data, value }) =>
  ask(wallet, 'eth_sendTransaction', [{ from, to, data, value, chainId: quantity(chainId) }]);

export const isHash = (hash) => typeof hash === 'string' && /^0x[0-9a-f]{64}$/i.test(hash);

/** A wallet response with a short time limit; `null` if there is none. */
export const soon = async (wallet, method, params) => {
  const asked = (async () => ask(wallet, method, params))();
  return Promise.race([asked.catch(() => null), pause(COUNT_MS).then(() => null)]);
};

const numberOf = (text) => (/^0x[0-9a-f]{1,13}$/i.test(text) ? Number(text) : null);

/** Transaction count of an account on a network; `null` if the wallet does not report it or is on another network. */
async function countOf(wallet, from, network, block) {
  if (Number(await soon(wallet, 'eth_chainId')) !== network?.chainId) return null;
  return numberOf(await soon(wallet, 'eth_getTransactionCount', [from, block]));
}

/** The nonce of the next transaction of an account on a network; `null` as in `countOf`. */
export const nextTurn = (wallet, from, network) => countOf(wallet, from, network, 'pending');

/** Whether an account has no code. The transactions of an account with code may be sent by another account. */
export const isPlain = async (wallet, from) => /^(null|0x)$/.test(await soon(wallet, 'eth_getCode', [from, 'latest']));

/**
 * The outcome of a transaction: `'done'`, `'reverted'`, or `'replaced'` if another transaction of the same account used
 * its nonce; that one may be the same payment at a higher gas price. `null` once `isOver` returns true. Nodes forget
 * replaced transactions, so `turn` is the nonce at the time of sending. `from` is the account that got the prompt, even if
 * another one is selected now; if a node shows another sender, the nonces of that sender count. `shows` is
 * called with whether a node shows the transaction.
 */
export async function outcome(wallet, hash, { from, network }, { turn = null, isOver = () => false, slow = () => {}, shows = () => {} } = {}) {
  const quietly = (method, params) => ask(wallet, method, params).catch(() => null);
  const receipt = async () => {
    const found = await quietly('eth_getTransactionReceipt', [hash]);
    const [, status] = /^(?:0x)?0*([01])$/i.exec(found?.status) ?? [];
    return { 1: 'done', 0: 'reverted' }[status];
  };
  const slowly = setTimeout(slow, SLOW_AFTER_MS);
  try {
    for (let wait = 400; !isOver(); wait = Math.min(wait + 150, 4000)) {
      const ended = await receipt();
      if (ended) return ended;
      const sent = await quietly('eth_getTransactionByHash', [hash]);
      shows(Boolean(sent));
      const nonce = numberOf(sent?.nonce);
      if (nonce !== null) [turn, from] = [nonce, sent.from ?? from];
      const used = turn === null ? null : await countOf(wallet, from, network, 'latest');
      if (used !== null && used > turn) {
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

/** Whether a node soon shows a transaction that was neither reverted nor replaced. */
export async function isShown(wallet, hash, asker) {
  let [isFound, looks] = [false, 0];
  const told = outcome(wallet, hash, asker, { isOver: () => looks++ > 0, shows: (isThere) => (isFound = isThere) });
  const end = await Promise.race([told, pause(COUNT_MS).then(() => null)]);
  return end === 'done' || (end === null && isFound);
}

// Discovery: EIP-6963, and legacy wallets at `window.ethereum`. Names and icons are untrusted: bidirectional controls are
// removed from names, and icons must be small data URL images.

const LEGACY_AFTER_MS = 300;
const ICON_MAX = 100_000;
const NAME_MAX = 40;

const isPicture = (icon) =>
  typeof icon === 'string' && icon.length <= ICON_MAX && /^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(icon);

/** The name without control, direction and invisible characters. */
const plain = (name) =>
  Array.from(String(name ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ''))
    .slice(0, NAME_MAX)
    .join('')
    .trim();

/** How wallets of EVM networks appear. Some wallets that cannot sign for these networks announce themselves too. */
const EVM = {
  standard: 'eip6963',
  isFit: (provider, rdns) => !provider.isTronLink && !/tronlink/i.test(rdns),
  look: () => globalThis.ethereum,
  ready: 'ethereum#initialized',
};

/**
 * Calls `found` with all wallets whenever a new one announces itself, as long as the page is open: extensions may load
 * late. A wallet is `{ id, name, icon, provider }`; `name` is empty if the wallet does not report one.
 */
export function discover(found, { standard, isFit, look: legacy, ready } = EVM) {
  const wallets = new Map();
  const tell = () => {
    const all = [...wallets.values()];
    const announced = all.filter((wallet) => wallet.id !== 'injected');
    found(announced.length ? announced : all);
  };
  addEventListener(`${standard}:announceProvider`, ({ detail }) => {
    const { info, provider } = detail ?? {};
    if (!info?.rdns || typeof provider?.request !== 'function' || !isFit(provider, info.rdns)) return;
    const id = String(info.rdns);
    if (wallets.get(id)?.provider === provider) return;
    wallets.set(id, { id, name: plain(info.name), icon: isPicture(info.icon) ? info.icon : null, provider });
    tell();
  });
  dispatchEvent(new Event(`${standard}:requestProvider`));
  const look = () => {
    const provider = legacy();
    if (wallets.size || typeof provider?.request !== 'function' || !isFit(provider)) return;
    wallets.set('injected', { id: 'injected', name: '', icon: null, provider });
    tell();
  };
  setTimeout(look, LEGACY_AFTER_MS);
  addEventListener(ready, look, { once: true });
}

/** Links that open a page in the browser of a wallet app: `[name, address]`, and the name of a text if it does not. */
export function appLinks(page) {
  const bare = page.replace(/^https?:\/\//, '');
  const whole = encodeURIComponent(page);
  return [
    ['MetaMask', `https://metamask.app.link/dapp/${bare}`],
    ['Coinbase Wallet', `https://go.cb-w.com/dapp?cb_url=${whole}`],
    ['Trust Wallet', `https://link.trustwallet.com/open_url?coin_id=60&url=${whole}`],
  ];
}
