// Unmodified tronweb as the wallet of several accounts: one call for each line of the standard input, as JSON, and one
// line with its result.
//
//   echo '{"call":"signMessage","message":"Hello","key":"<64 digits>"}' | node tronweb.mjs http://127.0.0.1:9090

import { createInterface } from 'node:readline';
import { TronWeb } from 'tronweb';

const tronWeb = new TronWeb({ fullHost: process.argv[2] });

const CALLS = {
  /** Signs a transaction. tronweb encodes its JSON form again, and refuses it if `txID` differs. */
  sign: ({ transaction, key }) => tronWeb.trx.sign(transaction, key),
  signMessage: ({ message, key }) => tronWeb.trx.signMessageV2(message, key),
  /** Sends a signed transaction to the node, past the service. */
  send: ({ transaction }) => tronWeb.trx.sendRawTransaction(transaction),
  balance: async ({ token, holder }) => {
    tronWeb.setAddress(holder);
    return String(await (await tronWeb.contract().at(token)).balanceOf(holder).call());
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { call, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { value: await CALLS[call](given) };
  } catch (error) {
    answer = { error: error.message ?? String(error) };
  }
  console.log(JSON.stringify(answer));
}
