-- The table stages: what a query recorded beside what its spans say. Neither overwrites the other.
WITH r AS (SELECT qid, stage, try_cast(sum(ms) AS BIGINT) AS ms FROM recorded_stage GROUP BY ALL),
s AS (
    SELECT s.qid, s.name AS stage, sum(s.end_ns - s.start_ns) / 1e6 AS ms, count(*) AS spans
    FROM span s JOIN query q ON q.qid = s.qid AND q.state = 'read'
    GROUP BY ALL
)
SELECT coalesce(r.qid, s.qid), coalesce(r.stage, s.stage), r.ms, s.ms::DOUBLE, coalesce(s.spans, 0)
FROM r FULL JOIN s ON s.qid = r.qid AND s.stage = r.stage
ORDER BY 1, 2
