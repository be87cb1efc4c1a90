// Prints random transactions that tronweb encodes, one JSON object per line. Run with
// `node random_transactions.mjs [count] [seed]`; the same seed gives the same transactions. It needs no node.

import { createHash } from 'node:crypto';
import { TronWeb, utils } from 'tronweb';

const count = Number(process.argv[2] ?? 10_000);
const seed = process.argv[3] ?? 'transactions';

let pool = Buffer.alloc(0);
let hashes = 0;

/** The next bytes of a sequence of hashes over the seed and a counter. */
function bytes(length) {
  while (pool.length < length) {
    const next = createHash('sha256').update(`${seed}:${hashes++}`).digest();
    pool = Buffer.concat([pool, next]);
  }
  const taken = pool.subarray(0, length);
  pool = pool.subarray(length);
  return taken;
}

const hex = (length) => bytes(length).toString('hex');

const below = (limit) => bytes(4).readUInt32BE() % limit;

/** An integer of up to 53 bits, the most that tronweb encodes exactly. Its length is random too. */
function integer() {
  const bits = below(54);
  return Number(BigInt.asUintN(bits, bytes(8).readBigUInt64BE()));
}

/** Zero in one of four cases, since the encoding leaves out zeros. */
const sometimes = (value) => (below(4) === 0 ? 0 : value);

const tronWeb = new TronWeb({ fullHost: 'http://127.0.0.1:1' });

/** Builds a transaction with the function that wallets call. It accepts no fee limit of zero and no empty call. */
async function build(fields) {
  const { transaction } = await tronWeb.transactionBuilder.triggerSmartContract(
    fields.contract,
    '',
    {
      txLocal: true,
      blockHeader: {
        ref_block_bytes: fields.refBlockBytes,
        ref_block_hash: fields.refBlockHash,
        expiration: fields.expiration,
        timestamp: fields.timestamp,
      },
      feeLimit: fields.feeLimit,
      callValue: fields.callValue,
      tokenValue: fields.tokenValue,
      tokenId: fields.tokenId,
      permissionId: fields.permissionId,
      input: fields.data,
    },
    [],
    fields.owner,
  );
  return { rawData: transaction.raw_data_hex, txId: transaction.txID };
}

/** Encodes a transaction with the protobuf classes of tronweb. */
function encode(fields) {
  const value = {
    owner_address: fields.owner,
    contract_address: fields.contract,
    call_value: fields.callValue,
    data: fields.data,
    call_token_value: fields.tokenValue,
    token_id: fields.tokenId,
  };
  const type = 'TriggerSmartContract';
  const parameter = { value, type_url: `type.googleapis.com/protocol.${type}` };
  const message = utils.transaction.txJsonToPb({
    visible: false,
    raw_data: {
      contract: [{ type, parameter, Permission_id: fields.permissionId }],
      ref_block_bytes: fields.refBlockBytes,
      ref_block_hash: fields.refBlockHash,
      expiration: fields.expiration,
      timestamp: fields.timestamp,
      fee_limit: fields.feeLimit,
    },
  });
  return {
    rawData: utils.transaction.txPbToRawDataHex(message).toLowerCase(),
    txId: utils.transaction.txPbToTxID(message).replace(/^0x/, ''),
  };
}

const lines = [];
for (let index = 0; index < count; index++) {
  const fields = {
    owner: `41${hex(20)}`,
    contract: `41${hex(20)}`,
    refBlockBytes: hex(2),
    refBlockHash: hex(8),
    expiration: sometimes(integer()),
    timestamp: sometimes(integer()),
    feeLimit: sometimes(integer()),
    permissionId: sometimes(below(2 ** 31)),
    callValue: sometimes(integer()),
    data: hex(sometimes(below(400))),
    tokenValue: sometimes(integer()),
    tokenId: sometimes(integer()),
  };
  const isWhole = fields.feeLimit > 0 && fields.data !== '';
  const { rawData, txId } = isWhole ? await build(fields) : encode(fields);
  lines.push(JSON.stringify({ ...fields, rawData, txId }));
}
process.stdout.write(`${lines.join('\n')}\n`);
