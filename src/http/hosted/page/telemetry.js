// Tells the owner of the link three things: a wallet was connected, a payment was shown to it, it was approved.
//
// No address leaves the page in them: the wallet's is hashed. What cannot be sent is not sent again, and nothing waits.

async function hashed(address) {
  const bytes = new TextEncoder().encode(address.toLowerCase());
  const digest = await crypto.subtle?.digest('SHA-256', bytes);
  return digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Sends an event about `wallet`, and `account` of it, with further properties. */
export async function tell(path, userEvent, wallet, account, further) {
  try {
    const properties = { wallet_provider: wallet.name || wallet.id, wallet_address_hashed: await hashed(account), ...further };
    const body = JSON.stringify({ userEvent, occurredAt: new Date().toISOString(), properties });
    const headers = { 'content-type': 'application/json' };
    await fetch(path, { method: 'POST', keepalive: true, credentials: 'omit', headers, body });
  } catch {
    // The payment goes on.
  }
}
