// `/_control`: what tests change. Settings of the chain hold for all nodes, settings of a node only for the node asked.

import { ACCOUNT_SETTINGS } from './accounts.mjs';
import { TOKENS, tokenCall } from './anvil.mjs';
import { evmAddress, readAddress } from './bytes.mjs';

function addressOf(text) {
  const address = readAddress(text);
  if (!address) throw new Error(`${text} is not an address`);
  return address;
}

function whole(value, field) {
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`${field} must be a whole number, zero or more`);
  return value;
}

function setAccount({ chain }, { address: text, activated = true, ...settings }) {
  const address = addressOf(text);
  if (activated) {
    for (const [name, value] of Object.entries(settings)) {
      if (!ACCOUNT_SETTINGS.includes(name)) throw new Error(`account.${name} is unknown`);
      whole(value, `account.${name}`);
    }
    const known = chain.accounts.get(address);
    chain.accounts.change(address, { ...(!known && { createTime: chain.headTime }), ...settings });
  } else {
    chain.accounts.remove(address);
  }
  // The change is not part of a block, so a reorganisation does not undo it.
  chain.accounts.takeUndo();
}

async function setToken({ chain, tokenOwner }, { symbol, ...changes }) {
  const token = TOKENS[symbol];
  if (!token) throw new Error(`token.symbol must be one of ${Object.keys(TOKENS).join(', ')}`);
  const calls = [];
  const add = (name, types, values) =>
    calls.push({ from: evmAddress(tokenOwner), to: evmAddress(token.address), input: tokenCall(name, types, values) });
  if (changes.feeBasisPoints !== undefined) {
    const largest = changes.maximumFee ?? '1000000000000';
    add('setParams', ['uint256', 'uint256'], [changes.feeBasisPoints, largest]);
  }
  if (changes.approvalNeedsReset !== undefined) add('setApprovalNeedsReset', ['bool'], [changes.approvalNeedsReset]);
  for (const holder of changes.block ?? []) add('addBlackList', ['address'], [evmAddress(addressOf(holder))]);
  for (const holder of changes.unblock ?? []) add('removeBlackList', ['address'], [evmAddress(addressOf(holder))]);
  if (changes.mint) {
    const { to, amount } = changes.mint;
    add('mint', ['address', 'uint256'], [evmAddress(addressOf(to)), amount]);
  }
  await chain.mineCalls(calls);
}

/** The settings in the order in which one call applies them. */
const SETTINGS = {
  clock: ({ chain }, clock) => {
    if (!['manual', 'wall'].includes(clock)) throw new Error('clock must be manual or wall');
    chain.clock = clock;
  },
  stepMs: ({ chain }, stepMs) => {
    if (whole(stepMs, 'stepMs') < 1000) throw new Error('stepMs must be at least 1000');
    chain.stepMs = stepMs;
  },
  nextTimeMs: ({ chain }, timestamp) => {
    if (whole(timestamp, 'nextTimeMs') <= chain.headTime) throw new Error('nextTimeMs must be after the newest block');
    chain.nextTime = timestamp;
  },
  forwardMs: ({ chain }, ms) => chain.forward(whole(ms, 'forwardMs')),
  energyPrice: ({ chain }, price) => {
    chain.energyPrice = Math.max(whole(price, 'energyPrice'), 1);
  },
  bandwidthPrice: ({ chain }, price) => {
    chain.bandwidthPrice = whole(price, 'bandwidthPrice');
  },
  hold: ({ chain }, hold) => {
    chain.hold = hold === true;
  },
  account: setAccount,
  token: setToken,
  reorganise: ({ chain }, depth) => chain.reorganise(whole(depth, 'reorganise')),
  mine: ({ chain }, count) => chain.mine(whole(count, 'mine')),
  solidLag: ({ view }, lag) => {
    view.solidLag = whole(lag, 'solidLag');
  },
  behind: ({ view }, blocks) => {
    view.behind = whole(blocks, 'behind');
  },
  lies: ({ view }, lies) => (lies === null ? view.clearLies() : view.setLies(lies)),
};

const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Why a call may come from a web page in the browser of a developer; otherwise `null`. */
export function refusalOfPage({ origin, host }) {
  if (origin !== undefined) return 'calls with the header Origin are refused: no web page may change the chain';
  if (!LOOPBACK_HOST.test(host ?? '')) return 'the header Host must be localhost, 127.0.0.1 or [::1]';
  return null;
}

/** Applies the settings of a call, and returns the state afterwards. */
export async function control(context, settings) {
  for (const name of Object.keys(settings)) {
    if (!Object.hasOwn(SETTINGS, name)) {
      throw new Error(`${name} is unknown: known are ${Object.keys(SETTINGS).join(', ')}`);
    }
  }
  for (const [name, apply] of Object.entries(SETTINGS)) {
    if (Object.hasOwn(settings, name)) await apply(context, settings[name]);
  }
  const { view, chain } = context;
  return {
    headNumber: view.headNumber,
    headId: view.block(view.headNumber).id,
    headTimeMs: chain.headTime,
    nextTimeMs: chain.nextTime,
    solidNumber: view.solidNumber,
    pending: chain.pending.length,
    lies: Object.keys(view.lies),
  };
}
