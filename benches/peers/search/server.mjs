// A hand-written payment search with fastify and pg: prepared statements over a pool, rows in, JSON out. It gets the
// statements of a search at the start; they are those of the measured service.
import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import Fastify from "fastify";
import pg from "pg";

const { port, postgresUrl, connections, keyHash, clientId, currencies, kinds } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const pool = new pg.Pool({ connectionString: postgresUrl, max: connections });
const known = new Set(Object.keys(kinds).flatMap((key) => key.split(/[ &]/)));
const text = { type: "string", maxLength: 128 };
const PARAMETERS = {
  txHash: { type: "string", pattern: "^0x[0-9a-fA-F]{64}$" },
  walletAddress: { type: "string", pattern: "^0x[0-9a-fA-F]{40}$" },
  paymentReference: { type: "string", pattern: "^0x[0-9a-fA-F]{16}$" },
  requestId: text,
  reference: text,
  type: { enum: ["direct", "conversion", "crosschain", "recurring"] },
  invoiceCurrency: text,
  paymentCurrency: text,
  fromDate: { type: "string", pattern: "Z$" },
  toDate: { type: "string", pattern: "Z$" },
  limit: { type: "integer", minimum: 1, maximum: 100, default: 20 },
  offset: { type: "integer", minimum: 0, maximum: 10_000, default: 0 },
};
const bytes = (digits) => digits && `\\x${digits.slice(2)}`;
const digits = (column) => column && `0x${column.toString("hex")}`;

/** A decimal text of units. */
function amount(units, decimals) {
  const all = units.padStart(decimals + 1, "0");
  const fraction = all.slice(all.length - decimals).replace(/0+$/, "");
  return all.slice(0, all.length - decimals) + (fraction && `.${fraction}`);
}

function payment(row) {
  const invoice = currencies[row.invoice_currency];
  const paid = currencies[row.payment_currency];
  const isConverted = row.invoice_currency !== row.payment_currency;
  // Converted payments are credited in units of the price feeds.
  const decimals = isConverted ? 8 : paid.decimals;
  const scale = 10n ** BigInt(18 + paid.decimals - decimals);
  const rate = isConverted ? amount(String((BigInt(row.credited) * scale) / BigInt(row.units)), 18) : null;
  const converted = isConverted ? amount(row.units, paid.decimals) : null;
  const fee = row.fee_address && amount(row.fee_units, paid.decimals);
  return {
    id: row.id,
    amount: amount(row.credited, decimals),
    sourceNetwork: row.network,
    destinationNetwork: row.network,
    sourceTxHash: digits(row.tx_hash),
    destinationTxHash: digits(row.tx_hash),
    timestamp: row.paid_at.toISOString(),
    type: row.kind,
    conversionRateSource: rate,
    conversionRateDestination: rate,
    convertedAmountSource: converted,
    convertedAmountDestination: converted,
    currency: invoice.symbol,
    paymentCurrency: paid.symbol,
    fees: fee
      ? [
          {
            type: "platform",
            stage: "proxying",
            provider: "service-network",
            amount: fee,
            amountInUSD: fee,
            currency: paid.symbol,
            receiverAddress: digits(row.fee_address),
            network: row.network,
            rateProvider: "unknown",
          },
        ]
      : [],
    recurringPaymentId: row.schedule_id,
    rateProvider: isConverted ? (row.rate_provider ?? "chainlink") : null,
    request: {
      requestId: row.request_id,
      paymentReference: digits(row.reference),
      hasBeenPaid: row.request_status === "paid",
      customerInfo: row.request_customer,
      reference: row.merchant_reference,
    },
  };
}

const server = Fastify();
server.addHook("onRequest", async (request, reply) => {
  const { "x-api-key": key, "x-client-id": client } = request.headers;
  const isKnown = key ? createHash("sha256").update(key).digest("hex") === keyHash : client === clientId;
  if (!isKnown && request.url !== "/health") return reply.code(401).send({ statusCode: 401, message: "Unauthorized" });
});
server.get("/health", async () => "ok");
server.get("/v2/payments", { schema: { querystring: { type: "object", properties: PARAMETERS } } }, async (request) => {
  const { query } = request;
  const { limit, offset } = query;
  const asked = Object.keys(query).filter((name) => name !== "limit" && name !== "offset");
  const parts = asked.map((name) => (known.has(`${name}=${query[name]}`) ? `${name}=${query[name]}` : name));
  const { name, statements } = kinds[(request.headers["x-client-id"] ? "client " : "") + parts.join("&")];
  const sampled = {
    tx_hash: bytes(query.txHash),
    reference: bytes(query.paymentReference),
    request_id: query.requestId,
    merchant_reference: query.reference,
    wallet: bytes(query.walletAddress),
    hot: bytes(query.walletAddress),
    since: query.fromDate,
    until: query.toDate,
  };
  // The counts of groups are the total only if all of their payments match.
  const isWhole = !query.reference && !query.fromDate && !query.toDate;
  let payments = [];
  let total = 0;
  for (const [number, statement] of statements.entries()) {
    const values = statement.values.map((value) => value.always ?? sampled[value.sampled]);
    const { rows } = await pool.query({ name: `${name} ${number}`, text: statement.text, values });
    // The group of a small wallet is known from the previous queries.
    sampled.wallet_group = rows[0]?.group_key;
    if (rows[0]?.request_status) payments = rows;
    else total = rows.reduce((sum, row) => sum + Number(row.total ?? (isWhole ? row.payments : 0)), 0);
  }
  const hasMore = payments.length > limit;
  const page = payments.slice(0, limit);
  const last = hasMore ? page.at(-1) : null;
  const place = last && `${last.paid_at.getTime()} ${last.id}`;
  return {
    payments: page.map(payment),
    pagination: { total: total || page.length, limit, offset, hasMore },
    nextCursor: place && Buffer.from(createHmac("sha256", keyHash).update(place).digest("hex") + place).toString("base64url"),
  };
});
await server.listen({ port, host: "127.0.0.1" });
