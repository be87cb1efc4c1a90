// TRX balances and resources of accounts, and what a transaction costs.

/** Bytes that Tron adds to the size of a transaction for its result. */
const RESULT_BYTES = 64;
export const FREE_BANDWIDTH = 600;

const EMPTY = {
  balance: 0,
  createTime: 0,
  latestOperationTime: 0,
  isContract: false,
  energyLimit: 0,
  energyUsed: 0,
  netLimit: 0,
  netUsed: 0,
  freeNetUsed: 0,
  frozenForEnergy: 0,
  frozenForBandwidth: 0,
};

/** Settings of an account that the control endpoint may change. */
export const ACCOUNT_SETTINGS = [
  'balance',
  'energyLimit',
  'energyUsed',
  'netLimit',
  'netUsed',
  'freeNetUsed',
  'frozenForEnergy',
  'frozenForBandwidth',
];

/** The activated accounts. Amounts are in sun; a reorganisation restores them. */
export class Accounts {
  #accounts = new Map();
  #before = new Map();

  get(address) {
    return this.#accounts.get(address) ?? null;
  }

  /** Changes an account, and creates it if it does not exist. */
  change(address, changes) {
    const account = this.#accounts.get(address);
    if (!this.#before.has(address)) this.#before.set(address, account);
    this.#accounts.set(address, { ...(account ?? EMPTY), ...changes });
  }

  remove(address) {
    if (!this.#before.has(address)) this.#before.set(address, this.#accounts.get(address));
    this.#accounts.delete(address);
  }

  /** The accounts as they were before the changes since the previous call. */
  takeUndo() {
    const before = this.#before;
    this.#before = new Map();
    return before;
  }

  restore(undo) {
    for (const [address, account] of undo) {
      if (account) this.#accounts.set(address, account);
      else this.#accounts.delete(address);
    }
  }
}

/** Number of bytes for which a transaction pays; `size` is its size without the result. */
export const bandwidthOf = (size) => size + RESULT_BYTES;

/** How an account pays for bytes: from its stake, from the free bytes of a day, or in sun. */
export function bandwidthPayment(account, bytes, price) {
  if (account.netLimit - account.netUsed >= bytes) {
    return { net_usage: bytes, net_fee: 0, changes: { netUsed: account.netUsed + bytes } };
  }
  if (FREE_BANDWIDTH - account.freeNetUsed >= bytes) {
    return { net_usage: bytes, net_fee: 0, changes: { freeNetUsed: account.freeNetUsed + bytes } };
  }
  const net_fee = bytes * price;
  return { net_usage: 0, net_fee, changes: { balance: account.balance - net_fee } };
}

const stakedEnergy = ({ energyLimit, energyUsed }) => Math.max(energyLimit - energyUsed, 0);

/** The most energy that a call may use. The fee limit also bounds energy from stake. */
export function energyBound(account, { feeLimit, callValue, price }) {
  const bought = Math.floor(Math.max(account.balance - callValue, 0) / price);
  return Math.min(stakedEnergy(account) + bought, Math.floor(feeLimit / price));
}

/** How an account pays for energy: first from its stake, then in sun. */
export function energyPayment(account, energy, price) {
  const energy_usage = Math.min(energy, stakedEnergy(account));
  const energy_fee = (energy - energy_usage) * price;
  const changes = { energyUsed: account.energyUsed + energy_usage, balance: account.balance - energy_fee };
  return { energy_usage, energy_fee, changes };
}
