// Decodes what the wallet will be asked to sign and compares it with what the page shows.
//
// Only known calls pass: token allowances for the contracts of this payment, and one payment that sends each amount to
// its recipient under its reference, and fees to the receivers that the link names. This detects stale and broken
// responses. It does not protect against a compromised service, which also controls this file.

/** Why a transaction does not belong to this payment; `why` selects a text of the word lists. */
export class Mismatch extends Error {
  constructor(why) {
    super(why);
    this.why = why;
  }
}

export const require = (holds, why) => {
  if (!holds) throw new Mismatch(why);
};

/** A decimal text converted to the smallest unit. */
export function units(text, decimals) {
  const [whole, part = ''] = text.split('.');
  require(/^\d+$/.test(whole) && /^\d*$/.test(part) && part.length <= decimals, 'amount');
  return BigInt(whole + part.padEnd(decimals, '0'));
}

/** Smallest units as a decimal text without trailing zeros. */
export function decimal(amount, decimals) {
  const digits = amount.toString().padStart(decimals + 1, '0');
  const at = digits.length - decimals;
  const part = digits.slice(at).replace(/0+$/, '');
  return digits.slice(0, at) + (part && '.' + part);
}

const BATCH_TOKEN = 2n;
const BATCH_COIN = 3n;
const LIST_MAX = 1000;

/** Fee receiver of a batch without fees. */
const NO_RECEIVER = '0x000000000000000000000000000000000000dead';

/** The ABI-encoded arguments of a call; reading past their end is a mismatch. */
class Arguments {
  constructor(hex) {
    this.hex = hex;
  }

  slice(at, bytes) {
    const part = this.hex.slice(at * 2, (at + bytes) * 2);
    require(part.length === bytes * 2, 'unknown');
    return part;
  }

  number(at) {
    return BigInt('0x' + this.slice(at, 32));
  }

  /** A count or an offset within the arguments. */
  small(at) {
    const number = this.number(at);
    require(number * 2n <= BigInt(this.hex.length), 'unknown');
    return Number(number);
  }

  address(at) {
    const number = this.number(at);
    require(number >> 160n === 0n, 'unknown');
    return '0x' + number.toString(16).padStart(40, '0');
  }

  bytes(at) {
    return '0x' + this.slice(at + 32, this.small(at));
  }

  /** The positions of the entries of a list; its words are the entries or point to them. */
  entries(at, arePointers) {
    const count = this.small(at);
    require(count <= LIST_MAX, 'unknown');
    const first = at + 32;
    return Array.from({ length: count }, (_, index) => {
      const place = first + index * 32;
      return arePointers ? first + this.small(place) : place;
    });
  }
}

const READERS = {
  // approve(address,uint256)
  '0x095ea7b3': (call) => ({ spender: call.address(0), allowance: call.number(32) }),
  // transferFromWithReferenceAndFee(address,address,uint256,bytes,uint256,address)
  '0xc219a14d': (call) => ({
    transfers: [
      {
        token: call.address(0),
        to: call.address(32),
        amount: call.number(64),
        reference: call.bytes(call.small(96)),
        fee: call.number(128),
        feeTo: call.address(160),
      },
    ],
  }),
  // transferWithReferenceAndFee(address,bytes,uint256,address), whose amount is the sent value minus the fee
  '0xb868980b': (call, value) => ({
    transfers: [
      {
        token: null,
        to: call.address(0),
        amount: value - call.number(64),
        reference: call.bytes(call.small(32)),
        fee: call.number(64),
        feeTo: call.address(96),
      },
    ],
  }),
  // batchPayments((uint256,(address,uint256,address[],bytes,uint256,uint256,uint256)[])[],address[][],address)
  '0x92cddb91': (call) => ({ transfers: batch(call), isBatch: true }),
};

function batch(call) {
  const feeTo = call.address(64);
  return call.entries(call.small(0), true).flatMap((group) => {
    const kind = call.number(group);
    require(kind === BATCH_TOKEN || kind === BATCH_COIN, 'unknown');
    return call.entries(group + call.small(group + 32), true).map((at) => {
      const path = call.entries(at + call.small(at + 64), false).map((place) => call.address(place));
      require(path.length === (kind === BATCH_TOKEN ? 1 : 0), 'token');
      return {
        token: path[0] ?? null,
        to: call.address(at),
        amount: call.number(at + 32),
        reference: call.bytes(at + call.small(at + 96)),
        fee: call.number(at + 128),
        feeTo,
      };
    });
  });
}

const lower = (text) => text.toLowerCase();

/** Whether an address matches the one shown, whose middle may be masked. */
function isShown(address, shown) {
  const [head, tail] = lower(shown).split('…');
  return tail === undefined ? address === head : address.startsWith(head) && address.endsWith(tail);
}

/** The amounts expected from the payer, in the smallest unit of each currency. */
function expected(details) {
  const currencies = details.currencies.map((currency) => ({
    ...currency,
    token: currency.address && lower(currency.address),
    most: units(currency.most, currency.decimals),
    fees: currency.fees.map((fee) => ({ receiver: fee.receiver, left: units(fee.due, currency.decimals) })),
  }));
  const open = details.items.filter((item) => item.due !== '0');
  const items = open.map((item) => ({
    ...item,
    currency: currencies[item.currency],
    units: units(item.due, currencies[item.currency].decimals),
  }));
  return { currencies, items: new Map(items.map((item) => [lower(item.paymentReference), item])) };
}

/** Requires that calldata takes the amount due, plus the batch contract's fee and what it returns. */
function asks(currencies, asked) {
  const isOf = (currency) => (sum) => (sum.address && lower(sum.address)) === currency.token;
  for (const currency of currencies) {
    const sum = asked.find(isOf(currency));
    const of = (text) => units(text ?? '0', currency.decimals);
    const due = of(currency.due);
    currency.asked = of(sum?.amount);
    currency.contractFee = sum?.contractFee ?? null;
    require(currency.asked === due + of(currency.contractFee?.amount) + of(sum?.returned), 'amount');
    require(currency.asked <= currency.most, 'fee');
  }
  require(asked.every((sum) => currencies.some((currency) => isOf(currency)(sum))), 'token');
}

/**
 * What each step does: `{ kind: 'reset' | 'allow' | 'pay', currency, amount, receivers, to, spender, data }`.
 *
 * Throws a Mismatch if a step is not part of this payment or takes more than the stated amount.
 */
export function verify(details, { steps, asked }, payer) {
  // A multicall pays all of its items in one transaction or none.
  const { isMulticall, count } = details;
  require(!isMulticall || (details.items.length === count && details.items.every((item) => item.state === 'ready')), 'missing');
  const { currencies, items } = expected(details);
  asks(currencies, asked);
  const contracts = details.contracts.map(lower);
  const ofToken = (token) => {
    const currency = currencies.find((one) => one.token === token);
    require(currency, 'token');
    return currency;
  };
  require(steps.length > 0, 'missing');
  return steps.map((step, index) => {
    const [to, data, value] = [lower(step.to), lower(step.data), BigInt(step.value)];
    require(/^0x([0-9a-f]{2})*$/.test(data), 'unknown');
    const reader = READERS[data.slice(0, 10)];
    require(reader, 'unknown');
    const call = reader(new Arguments(data.slice(10)), value);
    const isLast = index === steps.length - 1;
    require(isLast === Boolean(call.transfers), call.transfers ? 'unknown' : 'missing');
    if (!call.transfers) {
      const currency = ofToken(to);
      require(contracts.includes(call.spender), 'spender');
      require(call.allowance <= currency.asked, 'allowance');
      require(value === 0n, 'value');
      const kind = call.allowance === 0n ? 'reset' : 'allow';
      return { kind, currency, amount: call.allowance, to, spender: call.spender, data };
    }
    require(contracts.includes(to), 'contract');
    require(!isMulticall || (call.isBatch && items.size === count), 'missing');
    pays(call, { currencies, items }, ofToken, payer);
    const coin = currencies.find((one) => !one.token);
    require(call.isBatch || value === 0n || !call.transfers[0].token, 'value');
    require(value === (coin?.asked ?? 0n), 'value');
    const receivers = new Set(call.transfers.filter(({ reference }) => items.has(reference)).map((transfer) => transfer.to)).size;
    return { kind: 'pay', amounts: sums(items, currencies), receivers, to, data };
  });
}

/** Requires that transfers pay each item once, each fee receiver the shown fee, and nothing else. */
function pays({ transfers, isBatch }, { currencies, items }, ofToken, payer) {
  const open = new Map(items);
  const feeOf = ({ fees }, receiver) => fees.find((fee) => isShown(receiver, fee.receiver));
  const charge = (currency, receiver, amount) => {
    if (amount === 0n) return;
    const fee = feeOf(currency, receiver);
    require(fee && fee.left >= amount, 'fee');
    fee.left -= amount;
  };
  for (const transfer of transfers) {
    const currency = ofToken(transfer.token);
    const item = open.get(transfer.reference);
    if (item) {
      open.delete(transfer.reference);
      require(item.currency === currency, 'token');
      require(isShown(transfer.to, item.payee), 'recipient');
      require(transfer.amount === item.units, 'amount');
    } else {
      // Further fee receivers are paid by ordinary transfers with a reference that belongs to no item.
      require(!items.has(transfer.reference) && feeOf(currency, transfer.to), 'reference');
      charge(currency, transfer.to, transfer.amount);
    }
    charge(currency, transfer.feeTo, transfer.fee);
    // The batch contract may charge its own fee for the fee receiver, which is the same for all currencies.
    const mayTake = [NO_RECEIVER, lower(payer)].includes(transfer.feeTo) || currencies.some((one) => feeOf(one, transfer.feeTo));
    require(!isBatch || mayTake, 'fee');
    const { contractFee } = currency;
    require(!contractFee || isShown(transfer.feeTo, contractFee.receiver), 'fee');
  }
  require(open.size === 0, 'missing');
  require(currencies.every(({ fees }) => fees.every(({ left }) => left === 0n)), 'fee');
}

/** What items take from the wallet, by currency. */
function sums(items, currencies) {
  const of = (currency) =>
    [...items.values()].filter((item) => item.currency === currency).reduce((sum, item) => sum + item.units, 0n);
  return currencies.map((currency) => ({ currency, amount: of(currency) })).filter(({ amount }) => amount > 0n);
}
