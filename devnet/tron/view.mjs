// One node of the chain: how far it is, and what it shows of the blocks.

import { LIES, forgedBlocks, forgedEvent, shownBlock, shownInfo } from './lies.mjs';

export class NodeView {
  lies = {};
  /** The solid block lags the newest block by this many blocks. */
  solidLag;
  /** The newest block of this node lags the chain by this many blocks. */
  behind = 0;
  /** The blocks that this node shows instead of the chain's, from the first one's number on. */
  #fork = [];

  constructor(chain, solidLag) {
    this.chain = chain;
    this.solidLag = solidLag;
  }

  /** Switches lies: `true` or an object switches a lie on, `false` switches it off. */
  setLies(switches) {
    for (const [name, setting] of Object.entries(switches)) {
      if (!LIES[name]) throw new Error(`the lie ${name} is unknown: known are ${Object.keys(LIES).join(', ')}`);
      if (setting === false) delete this.lies[name];
      else this.lies[name] = { ...LIES[name], ...(setting === true ? {} : setting) };
    }
    if ('forgedBlock' in switches) {
      this.#fork = this.lies.forgedBlock ? forgedBlocks(this.chain, this.lies.forgedBlock) : [];
    }
  }

  clearLies() {
    this.lies = {};
    this.#fork = [];
  }

  get headNumber() {
    const number = Math.max(this.chain.head.number - this.behind, 0);
    return this.#fork.length > 0 ? this.#fork.at(-1).number : number;
  }

  get solidNumber() {
    return Math.max(this.headNumber - this.solidLag, 0);
  }

  limit(solid) {
    return solid ? this.solidNumber : this.headNumber;
  }

  /** The block parameter of the EVM node for calls on the newest or on the solid block. */
  evmBlock(solid) {
    const number = Math.min(this.limit(solid), this.chain.head.number);
    return number === this.chain.head.number ? 'latest' : this.chain.evmBlock(number);
  }

  /** A block as stored, without lies that change blocks. */
  #stored(number) {
    const first = this.#fork[0]?.number ?? Infinity;
    return number >= first ? this.#fork[number - first] : this.chain.blocks[number];
  }

  /** A block up to `limit`; `null` if this node has none. */
  block(number, limit = this.headNumber) {
    if (!Number.isSafeInteger(number) || number < 0 || number > limit) return null;
    const block = this.#stored(number);
    return block ? shownBlock(block, this.lies) : null;
  }

  blockById(id, limit = this.headNumber) {
    const block = this.block(Number.parseInt(id.slice(0, 16), 16), limit);
    return block?.id === id ? block : null;
  }

  /** The receipts of a block. */
  infos(number, limit = this.headNumber) {
    if (this.lies.emptyInfos || number > limit) return [];
    return (this.#stored(number)?.infos ?? []).map((info) => shownInfo(info, this.lies));
  }

  /** A transaction with its receipt; `null` if it is in no block up to `limit`. */
  find(id, limit = this.headNumber) {
    const place = this.chain.placeOf(id);
    const candidates = [...(place ? [place] : []), ...this.#forgedPlaces(id)];
    for (const { number, index } of candidates) {
      const stored = number <= limit ? this.#stored(number) : undefined;
      if (stored?.transactions[index]?.id !== id) continue;
      const shown = shownBlock(stored, { changedContractRet: this.lies.changedContractRet });
      const info = shownInfo(stored.infos[index], this.lies);
      return { block: stored, index, transaction: shown.transactions[index], info };
    }
    return null;
  }

  #forgedPlaces(id) {
    return this.#fork.flatMap(({ number, transactions }) =>
      transactions.flatMap((transaction, index) => (transaction.id === id ? [{ number, index }] : [])),
    );
  }

  /** The events of blocks, each with its place. */
  *events(from, to) {
    if (this.lies.missingLogs) return;
    for (let number = from; number <= Math.min(to, this.headNumber); number++) {
      const block = this.block(number);
      let logIndex = 0;
      for (const [index, info] of (this.#stored(number)?.infos ?? []).entries()) {
        for (const log of info.log ?? []) yield { block, index, id: info.id, log, logIndex: logIndex++ };
      }
      const { forgedLogs } = this.lies;
      if (forgedLogs && number === (forgedLogs.block ?? this.headNumber)) {
        yield { block, index: 0, ...forgedEvent(forgedLogs, block), logIndex };
      }
    }
  }
}
