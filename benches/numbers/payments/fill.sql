-- The payments that are searched and exported: rows as the service would have written them, all of one platform. One in
-- ten was created with its client ID and one in ten paid one wallet; each other wallet has seven. Runs after
-- plans/fill.sql, which defines the tables.

SET timezone = 'UTC';

-- Eleven consecutive groups, so that each small wallet is in one; the number of a group does not matter.
CREATE TABLE fill.groups AS
  SELECT kind, invoice AS invoice_currency, 'USDC-' || network AS payment_currency, network,
    hashtextextended(kind || invoice || network, 0) AS group_key, hashtextextended(kind || invoice || network, 1) AS client_group_key
  FROM (VALUES ('direct', 'USDC-mainnet', 'mainnet'), ('direct', 'USDC-base', 'base'), ('direct', 'USDC-matic', 'matic'),
    ('direct', 'USDC-optimism', 'optimism'), ('direct', 'USDC-arbitrum-one', 'arbitrum-one'), ('conversion', 'USD', 'mainnet'),
    ('conversion', 'USD', 'base'), ('conversion', 'USD', 'matic'), ('conversion', 'EUR', 'base'), ('conversion', 'EUR', 'optimism'),
    ('crosschain', 'USDC-base', 'arbitrum-one')) AS chosen(kind, invoice, network);

INSERT INTO fill.chosen
  WITH lists AS (
    SELECT entry.key AS col, array_agg(entry.value) AS list FROM fill.groups, jsonb_each_text(to_jsonb(groups)) AS entry
    GROUP BY entry.key),
  expressions AS (
    SELECT col, format(CASE col WHEN 'client_group_key' THEN 'CASE WHEN i %% 10 = 3 THEN (%L::bigint[])[1 + i / 7 %% 11] END'
      WHEN 'group_key' THEN '(%L::bigint[])[1 + i / 7 %% 11]' ELSE '(%L::text[])[1 + i / 7 %% 11]' END, list) FROM lists
    UNION ALL VALUES ('platform_id', quote_literal(:'platform')),
      ('client_row', format('CASE WHEN i %% 10 = 3 THEN %L END', :'client')),
      ('request_id', $$'01' || md5('request' || i) || md5(i || 'request')$$),
      ('fee_shortfall', 'NULL'), ('rate', 'NULL'), ('rate_provider', 'NULL'), ('further_fees', 'NULL'), ('orchestrator_fees', 'NULL'),
      ('payer_access', 'NULL'))
  SELECT tab, col, expression FROM unnest(ARRAY['requests', 'payments']) AS tab, expressions AS chosen(col, expression);
