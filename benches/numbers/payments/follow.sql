-- What follows from payments: the rows of their wallets and the counts, and what the bench asks for.

SET timezone = 'UTC';
SET synchronous_commit = off;
SET work_mem = '256MB';

INSERT INTO payment_parties (platform_id, wallet, paid_at, payment_id, is_payee, client_row, group_key)
  SELECT platform_id, wallet, paid_at, id, is_payee, client_row, group_key
  FROM payments, LATERAL (VALUES (payee, true), (payer, false)) AS parties(wallet, is_payee)
  ORDER BY wallet, paid_at;
INSERT INTO payment_wallets (platform_id, wallet, payments)
  SELECT platform_id, wallet, count(*) FROM payment_parties GROUP BY platform_id, wallet;
INSERT INTO payment_groups (platform_id, client_row, kind, invoice_currency, payment_currency, group_key, payments)
  SELECT platform_id, '', kind, invoice_currency, payment_currency, group_key, count(*) FROM payments GROUP BY 1, 3, 4, 5, 6
  UNION ALL
  SELECT platform_id, client_row, kind, invoice_currency, payment_currency, client_group_key, count(*) FROM payments
    WHERE client_row IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6;

-- A thousand payments over the whole table, none of the wallet that has many, and a month that begins at each.
CREATE TABLE fill.samples AS
  SELECT n::int AS n, tx_hash::text, reference::text, request_id, merchant_reference, payee::text AS wallet,
    (SELECT wallet::text FROM payment_wallets ORDER BY payments DESC LIMIT 1) AS hot,
    date_trunc('day', paid_at)::text AS since, (date_trunc('day', paid_at) + interval '30 days')::text AS until
  FROM generate_series(1, 1000) AS n,
    LATERAL (SELECT * FROM payments WHERE id = fill.id(fill.place('payments'), 7 + 10 * (n * (:large / 10 - 1) / 1000))) AS payments;
ALTER TABLE fill.samples ADD PRIMARY KEY (n);
VACUUM ANALYZE payment_parties, payment_wallets, payment_groups, fill.samples;
