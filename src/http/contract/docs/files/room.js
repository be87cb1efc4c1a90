// What `prs dev` lends to the pages of its documentation: credentials, and a wallet on its chain.

/** Where that is; other services have no such room and say so in the document, so that nobody asks them. */
const room = document.documentElement.dataset.room;

/** Whether there is one. */
export const isOpen = Boolean(room);

let asked;

/** The credentials by their schemes in the documents, and the wallets; `null` where there is no room. */
export function lent() {
  asked ??= isOpen ? fetch(`${room}/keys`).then(answered) : Promise.resolve(null);
  return asked;
}

/** Has the wallet sign and send the transactions of an answer; returns their hashes. */
export async function send(transactions) {
  const body = JSON.stringify({ transactions });
  const headers = { 'content-type': 'application/json' };
  return (await answered(await fetch(`${room}/wallet`, { method: 'POST', headers, body }))).hashes;
}

/** The body of a success. Errors: what a failure says. */
export async function answered(response) {
  const body = await response.json();
  if (response.ok) return body;
  const fields = (body.errors ?? []).map((one) => `${one.field}: ${one.message}`);
  throw new Error([body.message, ...fields].join('; '));
}
