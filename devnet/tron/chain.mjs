// The chain that all nodes of the stand-in share: blocks, accounts and the execution of transactions.

import { Accounts, bandwidthOf, bandwidthPayment, energyBound, energyPayment } from './accounts.mjs';
import { CALL_GAS, contracts, logOf, sendCall } from './anvil.mjs';
import { SLOT_MS, buildBlock } from './blocks.mjs';
import { base58, evmAddress, hexOfText, quantity } from './bytes.mjs';
import { GENESIS } from './genesis.mjs';
import { signerOf, transactionBytes, withoutEmpty } from './transactions.mjs';

const LARGEST_LIFETIME_MS = 24 * 3600 * 1000;
const LARGEST_BYTES = 500 * 1024;
const REFERENCE_BLOCKS = 65_536;
/** Smallest time between blocks on the clock of the machine. Longer steps would date payments into the future. */
const SHORT_STEP_MS = 1;
export const LARGEST_FEE_LIMIT = 15_000_000_000;
export const ACCOUNT_CREATION_FEE = 100_000;
export const NEW_ACCOUNT_FEE = 1_000_000;
export const MEMO_FEE = 1_000_000;

/** The node refuses a transaction; `code` is one of Tron's names. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const invalid = (message) => new Refusal('CONTRACT_VALIDATE_ERROR', `Contract validate error : ${message}`);

export class Chain {
  blocks = [GENESIS];
  accounts = new Accounts();
  energyPrice = 100;
  bandwidthPrice = 1000;
  /** `manual`: a block is one step after its parent. `wall`: blocks follow the clock of the machine. */
  clock = 'manual';
  stepMs = SLOT_MS;
  /** Whether transactions wait for the next call of `mine`, instead of getting a block at once. */
  hold = false;
  /** Accepted transactions that wait for a block. */
  pending = [];
  /** Is called after every block. */
  onBlock = () => {};
  #anvil;
  /** The newest block of the EVM node: one for each executed call. */
  #evmNumber;
  #evmTime;
  #nextTime;
  /** By how much the clock `wall` is ahead of the clock of the machine. */
  #aheadMs = 0;
  #places = new Map();
  #queue = Promise.resolve();

  constructor(anvil, startTimeMs) {
    this.#anvil = anvil;
    this.#nextTime = startTimeMs;
  }

  /** Starts at the EVM node's newest block, which has the state of block 0. */
  async start() {
    await this.#readEvmHead();
    this.blocks[0] = { ...GENESIS, evmNumber: this.#evmNumber };
    // Changes of accounts before the first block survive every reorganisation.
    this.accounts.takeUndo();
  }

  async #readEvmHead() {
    const { number, timestamp } = await this.#anvil.call('eth_getBlockByNumber', 'latest', false);
    this.#evmNumber = Number(number);
    this.#evmTime = Number(timestamp);
  }

  get head() {
    return this.blocks.at(-1);
  }

  get headTime() {
    return this.head.header.timestamp ?? 0;
  }

  /** The block parameter of the EVM node for a block. */
  evmBlock(number) {
    return quantity(this.blocks[number].evmNumber);
  }

  /** Where a transaction is; `undefined` if it is in no block. */
  placeOf(id) {
    return this.#places.get(id);
  }

  /** Runs changes of the chain one after another. */
  exclusive(change) {
    const result = this.#queue.then(change);
    this.#queue = result.catch(() => {});
    return result;
  }

  /** The time of the next block. */
  set nextTime(timestamp) {
    this.#nextTime = timestamp;
  }

  get nextTime() {
    const parent = this.headTime;
    if (this.#nextTime > parent) return this.#nextTime;
    if (this.clock === 'wall') return Math.max(parent + SHORT_STEP_MS, this.#now());
    return parent + this.stepMs;
  }

  #now() {
    return Date.now() + this.#aheadMs;
  }

  /** Moves the clock `wall` forward; the next block has the new time. */
  forward(ms) {
    this.#aheadMs += ms;
  }

  /**
   * Mines one block if the blocks follow the clock of the machine, and the next slot has come or a transaction is not
   * solid yet. Every request calls this, so that an idle chain costs nothing, and a payment is solid after a few
   * requests.
   */
  async follow(solidLag) {
    if (this.clock !== 'wall') return;
    await this.exclusive(async () => {
      const recent = this.blocks.slice(this.blocks.length - solidLag);
      const isOpen = recent.some(({ transactions }) => transactions.length > 0);
      if (isOpen || this.#now() >= this.headTime + SLOT_MS) await this.#minePending();
    });
  }

  async mine(count) {
    await this.exclusive(async () => {
      for (let mined = 0; mined < count; mined++) await this.#minePending();
    });
  }

  /** Mines a block with calls that no transaction of Tron makes, such as the owner's calls of a token. */
  async mineCalls(calls) {
    await this.exclusive(async () => {
      for (const call of calls) await this.#executeCall(call);
      this.#addBlock([], []);
    });
  }

  /** Drops the newest blocks. The next block skips a slot, so that no dropped block comes back with its old id. */
  async reorganise(depth) {
    await this.exclusive(async () => {
      if (depth >= this.blocks.length) throw new Error('block 0 cannot be dropped');
      const skipped = this.headTime;
      for (let dropped = 0; dropped < depth; dropped++) {
        const block = this.blocks.pop();
        for (const { id } of block.transactions) this.#places.delete(id);
        this.accounts.restore(block.accountsBefore);
      }
      const calls = this.#evmNumber - this.head.evmNumber;
      if (calls > 0) await this.#anvil.call('anvil_rollback', calls);
      await this.#readEvmHead();
      this.#nextTime = Math.max(this.headTime + 2 * this.stepMs, skipped + this.stepMs);
    });
  }

  /** Checks a transaction in the order of java-tron. It gets a block at once, or waits for the next one. */
  async broadcast(transaction) {
    await this.exclusive(async () => {
      this.#check(transaction);
      if (this.pending.some(({ id }) => id === transaction.id)) {
        throw new Refusal('DUP_TRANSACTION_ERROR', 'Dup transaction.');
      }
      if (this.hold) {
        this.pending.push(transaction);
      } else {
        const info = await this.#execute(transaction);
        this.#addBlock([transaction], [info]);
      }
    });
  }

  /** Mines a block with the waiting transactions. As on Tron, one that has become invalid is dropped. */
  async #minePending() {
    const transactions = [];
    const infos = [];
    for (const transaction of this.pending.splice(0)) {
      try {
        this.#check(transaction);
        infos.push(await this.#execute(transaction));
        transactions.push(transaction);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
    }
    this.#addBlock(transactions, infos);
  }

  #check(transaction) {
    const payer = this.#checkSigned(transaction);
    if (transactionBytes(transaction).length > LARGEST_BYTES) {
      throw new Refusal('TOO_BIG_TRANSACTION_ERROR', 'Transaction is too big');
    }
    this.#checkContract(transaction, payer);
  }

  #checkSigned(transaction) {
    const { id, signatures, value, json, type } = transaction;
    if (!type) throw invalid('the stand-in models only TransferContract and TriggerSmartContract');
    const expired = new Refusal('TRANSACTION_EXPIRATION_ERROR', 'Transaction expired');
    if (!(json.expiration >= this.nextTime)) throw expired;
    if (signatures.length === 0) throw new Refusal('SIGERROR', 'Validate signature error: miss sig or contract');
    const signer = signatures.length === 1 ? signerOf(id, signatures[0]) : null;
    if (signer !== value.owner_address) {
      const reason = signer
        ? `${signatures[0]} is signed by ${base58(signer)} but it is not contained of permission.`
        : 'sig error';
      throw new Refusal('SIGERROR', `Validate signature error: ${reason}`);
    }
    if (!this.#knowsReference(json)) throw new Refusal('TAPOS_ERROR', 'Tapos check error.');
    if (json.expiration > this.headTime + LARGEST_LIFETIME_MS && this.head.number > 0) throw expired;
    if (this.#places.has(id)) throw new Refusal('DUP_TRANSACTION_ERROR', 'Dup transaction.');
    const payer = this.accounts.get(value.owner_address);
    if (!payer) throw invalid(`account [${base58(value.owner_address)}] does not exist`);
    return payer;
  }

  #knowsReference({ ref_block_bytes, ref_block_hash }) {
    const { number } = this.head;
    const wanted = Number.parseInt(ref_block_bytes ?? '', 16);
    const reference = number - ((number - wanted) & (REFERENCE_BLOCKS - 1));
    return this.blocks[reference]?.id.slice(16, 32) === ref_block_hash;
  }

  #checkContract({ type, value, json }, payer) {
    if (type === 'TransferContract') {
      if (!(value.amount > 0)) throw invalid('Amount must be greater than 0.');
      if (value.to_address === value.owner_address) throw invalid('Cannot transfer TRX to yourself.');
      if (payer.balance < value.amount) throw invalid('Validate TransferContract error, balance is not sufficient.');
      return;
    }
    const feeLimit = json.fee_limit ?? 0;
    if (feeLimit < 0 || feeLimit > LARGEST_FEE_LIMIT) {
      throw invalid(`feeLimit must be >= 0 and <= ${LARGEST_FEE_LIMIT}`);
    }
    if (!contracts.has(value.contract_address)) throw invalid('No contract or not a smart contract');
    if (payer.balance < (value.call_value ?? 0)) {
      throw invalid('Validate InternalTransfer error, balance is not sufficient.');
    }
  }

  /** Executes a transaction, takes its costs and returns its receipt, to which the block's fields are added later. */
  async #execute(transaction) {
    const bytes = bandwidthOf(transactionBytes(transaction).length);
    const { type, value, json, id } = transaction;
    const owner = value.owner_address;
    const createsAccount = type === 'TransferContract' && !this.accounts.get(value.to_address);
    let net = bandwidthPayment(this.accounts.get(owner), bytes, this.bandwidthPrice);
    if (createsAccount && net.net_fee > 0) net = this.#creationPayment(owner);
    const { balance } = this.accounts.get(owner);
    if (balance < net.net_fee) throw new Refusal('BANDWITH_ERROR', 'Account resource insufficient error.');
    const extra = (json.data ? MEMO_FEE : 0) + (createsAccount ? NEW_ACCOUNT_FEE : 0);
    const moved = value.amount ?? value.call_value ?? 0;
    if (balance < net.net_fee + extra + moved) throw invalid('balance is not sufficient.');
    this.accounts.change(owner, { ...net.changes, latestOperationTime: this.nextTime });
    this.#pay(owner, extra);
    const receipt = { net_usage: net.net_usage, net_fee: net.net_fee };
    if (type === 'TransferContract') {
      this.#pay(owner, value.amount);
      const to = this.accounts.get(value.to_address);
      this.accounts.change(value.to_address, {
        balance: (to?.balance ?? 0) + value.amount,
        createTime: to?.createTime ?? this.nextTime,
      });
      transaction.contractRet = 'SUCCESS';
      const fee = net.net_fee + extra;
      return { ...withoutEmpty({ id, fee }), contractResult: [''], receipt: withoutEmpty(receipt) };
    }
    const call = await this.#callContract(transaction);
    transaction.contractRet = call.result;
    return {
      ...withoutEmpty({ id, fee: net.net_fee + extra + call.receipt.energy_fee }),
      contractResult: [call.output],
      contract_address: value.contract_address,
      receipt: withoutEmpty({ ...call.receipt, ...receipt, result: call.result }),
      ...(call.logs.length > 0 && { log: call.logs }),
      ...(call.message && { result: 'FAILED', resMessage: hexOfText(call.message) }),
    };
  }

  #creationPayment(owner) {
    const { balance } = this.accounts.get(owner);
    return { net_usage: 0, net_fee: ACCOUNT_CREATION_FEE, changes: { balance: balance - ACCOUNT_CREATION_FEE } };
  }

  #pay(address, amount) {
    const { balance } = this.accounts.get(address);
    if (amount) this.accounts.change(address, { balance: balance - amount });
  }

  async #callContract({ value, json }) {
    const { owner_address: owner, contract_address: contract, call_value: callValue = 0, data = '' } = value;
    const call = { from: evmAddress(owner), to: evmAddress(contract), data: `0x${data}`, value: callValue };
    const price = this.energyPrice;
    const trace = await this.#anvil.trace(call);
    const bound = energyBound(this.accounts.get(owner), { feeLimit: json.fee_limit ?? 0, callValue, price });
    const outcome = outcomeOf(trace, bound);
    const { changes, ...energy } = energyPayment(this.accounts.get(owner), outcome.energy, price);
    this.accounts.change(owner, changes);
    let logs = [];
    if (outcome.result === 'SUCCESS') {
      this.#pay(owner, callValue);
      const { from, to, data: input } = call;
      logs = await this.#executeCall({ from, to, input, value: quantity(callValue) });
    }
    const receipt = { ...energy, energy_usage_total: outcome.energy };
    return { ...outcome, logs, receipt };
  }

  /** Executes a call in a block of its own of the EVM node, and returns its events. */
  async #executeCall(call) {
    const evmTime = Math.max(this.#evmTime + 1, Math.floor(this.nextTime / 1000));
    await this.#anvil.call('evm_setNextBlockTimestamp', quantity(evmTime));
    const hash = await sendCall(this.#anvil, call);
    await this.#anvil.call('anvil_mine', '0x1');
    this.#evmNumber += 1;
    this.#evmTime = evmTime;
    const { status, logs } = await this.#anvil.call('eth_getTransactionReceipt', hash);
    if (status !== '0x1') throw new Error(`the EVM node reverted the call ${JSON.stringify(call)}`);
    return logs.map(logOf);
  }

  #addBlock(transactions, infos) {
    const timestamp = this.nextTime;
    const number = this.head.number + 1;
    const block = buildBlock({ parentHash: this.head.id, number, timestamp, transactions, infos });
    for (const info of infos) Object.assign(info, { blockNumber: number, blockTimeStamp: timestamp });
    block.accountsBefore = this.accounts.takeUndo();
    block.evmNumber = this.#evmNumber;
    transactions.forEach(({ id }, index) => this.#places.set(id, { number, index }));
    this.blocks.push(block);
    this.onBlock(block);
  }
}

/** What a call amounts to, given the most energy that it may use. */
export function outcomeOf({ gas, error, output }, bound = Infinity) {
  const reverted = error !== null && /revert/i.test(error);
  if (gas > bound || (error && /out of gas/i.test(error))) {
    return { result: 'OUT_OF_ENERGY', energy: Math.min(bound, gas), output: '', message: 'Not enough energy to run' };
  }
  if (reverted) return { result: 'REVERT', energy: gas, output, message: 'REVERT opcode executed' };
  // Every other fault takes all the energy.
  if (error) return { result: 'ILLEGAL_OPERATION', energy: Math.min(bound, CALL_GAS), output: '', message: error };
  return { result: 'SUCCESS', energy: gas, output, message: null };
}
