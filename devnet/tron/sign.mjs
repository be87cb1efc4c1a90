// Signs transactions as a wallet does, with unmodified tronweb and without a node. Prints one line for each.
//
//   echo '{"privateKey": "0x…", "transactions": [{"txID": …, "raw_data": …, "raw_data_hex": …}]}' | node sign.mjs

import { text } from 'node:stream/consumers';
import { TronWeb } from 'tronweb';

const { privateKey, transactions } = JSON.parse(await text(process.stdin));
// tronweb requires the URL of a node, and calls no node to sign.
const tronWeb = new TronWeb({ fullHost: 'http://127.0.0.1', privateKey: privateKey.replace(/^0x/, '') });
for (const { txID, raw_data, raw_data_hex } of transactions) {
  console.log(JSON.stringify(await tronWeb.trx.sign({ visible: false, txID, raw_data, raw_data_hex })));
}
