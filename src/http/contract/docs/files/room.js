// The developer endpoints of `prs dev` for the documentation pages: credentials, and a wallet on its chain.

/** Path of the developer endpoints. Other services omit it from the page, so that the page does not call them. */
const room = document.documentElement.dataset.room;

/** Whether the developer endpoints exist. */
export const isOpen = Boolean(room);

let asked;

/** The credentials by security scheme, and the wallets; `null` without developer endpoints. */
export function lent() {
  asked ??= isOpen ? fetch(`${room}/keys`).then(answered) : Promise.resolve(null);
  return asked;
}

/** Signs and sends the transactions of a response with the wallet; returns their hashes. */
export async function send(transactions) {
  const body = JSON.stringify({ transactions });
  const headers = { 'content-type': 'application/json' };
  return (await answered(await fetch(`${room}/wallet`, { method: 'POST', headers, body }))).hashes;
}

/** Returns the body of a successful response; throws the message of an error. */
export async function answered(response) {
  const body = await response.json();
  if (response.ok) return body;
  const fields = (body.errors ?? []).map((one) => `${one.field}: ${one.message}`);
  throw new Error([body.message, ...fields].join('; '));
}
