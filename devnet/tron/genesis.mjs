// Block 0 of Tron's main network as nodes publish it. Its id ends with the chain id.

import { bytesOf, hexOf, hexOfText, sha256 } from './bytes.mjs';

const GENESIS_ID = '00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc';
/** The id of block 0 of the test network Nile, which a node of a wrong network returns. */
export const NILE_GENESIS_ID = '0000000000000000d698d4192c56cb6be724a558448e2684802de4d6cd8690dc';

const MOTTO =
  'A new system must allow existing systems to be linked together ' +
  'without requiring any central control or coordination';

const OWNER = hexOfText('0x000000000000000000000');
const TYPE_URL = 'type.googleapis.com/protocol.TransferContract';

// tronweb cannot encode the amounts, which exceed the numbers of JavaScript, so the bytes are written out.
const PREFIX = `0a2d${hexOfText(TYPE_URL)}`;
const TRANSFERS = [
  {
    to_address: '4171b0af54e0a1182a5e0947d6a64f3b22740ef318',
    amount: 99000000000000000n,
    amountBytes: '1880808ec69bffedaf01',
  },
  { to_address: '41ef1bd15b5b657f69611b053a6f4fcd7268a50858', amount: undefined, amountBytes: '' },
  {
    to_address: '4177944d19c052b73ee2286823aa83f8138cb7032f',
    amount: -9223372036854775808n,
    amountBytes: '1880808080808080808001',
  },
];

const lengthOf = (hex) => (hex.length / 2).toString(16).padStart(2, '0');

function genesisTransaction({ to_address, amount, amountBytes }) {
  const transfer = `0a17${OWNER}1215${to_address}${amountBytes}`;
  const parameter = `${PREFIX}12${lengthOf(transfer)}${transfer}`;
  const contract = `080112${lengthOf(parameter)}${parameter}`;
  const rawHex = `5a${lengthOf(contract)}${contract}`;
  const value = { owner_address: OWNER, to_address, amount };
  return {
    txID: hexOf(sha256(bytesOf(rawHex))),
    raw_data: { contract: [{ parameter: { value, type_url: TYPE_URL }, type: 'TransferContract' }] },
    raw_data_hex: rawHex,
  };
}

/** Block 0. Its transactions are already in the form of the HTTP API. */
export const GENESIS = {
  number: 0,
  id: GENESIS_ID,
  header: {
    txTrieRoot: '8ef446bf3f395af929c218014f6101ec86576c5f61b2ae3236bf3a2ab5e2fecd',
    witness_address: hexOfText(MOTTO),
    parentHash: 'e58f33f9baf9305dc6f82b9f1934ea8f0ade2defb951258d50167028c780351f',
  },
  transactions: [],
  published: TRANSFERS.map(genesisTransaction),
  infos: [],
};
