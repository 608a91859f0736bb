-- The distinct spans. Of several copies of a span the most telling one counts; the further columns only make the
-- choice a fixed one.
CREATE MACRO lost(dropped) AS
    CASE WHEN dropped > 0 THEN '; ' || dropped || ' attributes were dropped from it' ELSE '' END;
CREATE TABLE span AS
SELECT * FROM read_span
QUALIFY row_number() OVER (
    PARTITION BY trace_id, span_id
    ORDER BY qid IS NULL, NOT expects, end_ns DESC, start_ns, qid, digest, name, service, parent, dropped, in_window
) = 1;
