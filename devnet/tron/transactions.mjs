// Transactions. All their bytes come from the protobuf classes of tronweb.

import { utils } from 'tronweb';
import { bytesOf, hexOf, readAddress, sha256 } from './bytes.mjs';

const proto = globalThis.TronWebProto;

const CONTRACT_RET = proto.Transaction.Result.contractResult;
const TYPES = { 1: 'TransferContract', 31: 'TriggerSmartContract' };
const ADDRESS_FIELDS = ['owner_address', 'contract_address', 'to_address'];

/** The object without the fields that protobuf leaves out: zeros and empty bytes. */
export const withoutEmpty = (fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== 0 && value !== ''));

function contractValue(type, bytes) {
  if (type === 'TransferContract') {
    const message = proto.TransferContract.deserializeBinary(bytes);
    return withoutEmpty({
      owner_address: hexOf(message.getOwnerAddress_asU8()),
      to_address: hexOf(message.getToAddress_asU8()),
      amount: message.getAmount(),
    });
  }
  const message = proto.TriggerSmartContract.deserializeBinary(bytes);
  return withoutEmpty({
    owner_address: hexOf(message.getOwnerAddress_asU8()),
    contract_address: hexOf(message.getContractAddress_asU8()),
    call_value: message.getCallValue(),
    data: hexOf(message.getData_asU8()),
    call_token_value: message.getCallTokenValue(),
    token_id: message.getTokenId(),
  });
}

/** A transaction from the bytes of its raw data. `type` is `null` if the stand-in does not model the contract type. */
function transactionOf(raw, signatures) {
  const message = proto.Transaction.raw.deserializeBinary(raw);
  const [contract] = message.getContractList();
  const type = (contract && TYPES[contract.getType()]) ?? null;
  const value = type ? contractValue(type, contract.getParameter().getValue_asU8()) : {};
  const json = withoutEmpty({
    data: hexOf(message.getData_asU8()),
    contract: [
      {
        parameter: { value, type_url: contract?.getParameter().getTypeUrl() },
        type,
        ...withoutEmpty({ Permission_id: contract?.getPermissionId() }),
      },
    ],
    ref_block_bytes: hexOf(message.getRefBlockBytes_asU8()),
    ref_block_hash: hexOf(message.getRefBlockHash_asU8()),
    expiration: message.getExpiration(),
    fee_limit: message.getFeeLimit(),
    timestamp: message.getTimestamp(),
  });
  return { id: hexOf(sha256(raw)), raw: Buffer.from(raw), type, value, json, signatures, contractRet: null };
}

function hexAddresses(value) {
  const copy = { ...value };
  for (const field of ADDRESS_FIELDS) if (copy[field]) copy[field] = readAddress(copy[field]) ?? copy[field];
  return copy;
}

/** Reads a transaction as `broadcasttransaction` gets it. As in java-tron, `raw_data` counts, not `raw_data_hex`. */
export function readJson(json) {
  const rawData = structuredClone(json.raw_data);
  const [contract] = rawData.contract;
  contract.parameter.value = hexAddresses(contract.parameter.value);
  const message = utils.transaction.txJsonToPb({ ...json, visible: false, raw_data: rawData });
  return transactionOf(message.getRawData().serializeBinary(), json.signature ?? []);
}

/** Reads the bytes of a whole transaction as `broadcasthex` gets them. */
export function readBytes(hex) {
  const message = proto.Transaction.deserializeBinary(new Uint8Array(bytesOf(hex)));
  return transactionOf(message.getRawData().serializeBinary(), message.getSignatureList_asU8().map(hexOf));
}

/** An unsigned transaction that refers to the given block. */
export function buildTransaction(type, value, block, { feeLimit = 0, lifetimeMs = 60_000 } = {}) {
  const { timestamp } = block.header;
  const message = utils.transaction.txJsonToPb({
    raw_data: {
      contract: [{ parameter: { value, type_url: `type.googleapis.com/protocol.${type}` }, type }],
      ref_block_bytes: block.id.slice(12, 16),
      ref_block_hash: block.id.slice(16, 32),
      expiration: timestamp + lifetimeMs,
      fee_limit: feeLimit,
      timestamp,
    },
  });
  return transactionOf(message.getRawData().serializeBinary(), []);
}

/** The bytes of a whole transaction: with its signatures and, once it is in a block, its result. */
export function transactionBytes({ raw, signatures, contractRet }) {
  const message = new proto.Transaction();
  message.setRawData(proto.Transaction.raw.deserializeBinary(new Uint8Array(raw)));
  for (const signature of signatures) message.addSignature(new Uint8Array(bytesOf(signature)));
  if (contractRet) {
    const result = new proto.Transaction.Result();
    result.setContractret(CONTRACT_RET[contractRet]);
    message.addRet(result);
  }
  return Buffer.from(message.serializeBinary());
}

/** The address that signed, in hexadecimal; `null` if the signature is malformed. */
export function signerOf(id, signature) {
  try {
    return bytesOf(signature).length === 65 ? utils.crypto.ecRecover(id, signature).toLowerCase() : null;
  } catch {
    return null;
  }
}

/** A signature over a hash as nodes write it, with 0 or 1 in the last byte. */
export function signHash(hash, privateKey) {
  const signature = utils.crypto.ECKeySign([...hash], [...bytesOf(privateKey)]).toLowerCase();
  return signature.slice(0, 128) + (signature.endsWith('1b') ? '00' : '01');
}
