-- Which span belongs to which call. Runs once, when every span is read and every query is known.
--
-- Given:  span      one row a span: own ids and qid, whether it expects a payload, the day it belongs to in the window
--         recorded  one row a call;  ids: the (trace, span) ids under which a call was recorded or seen
--         query     one row a qid: read, failed, absent, or erased or outside the window (both hidden)
--
-- Rules, in this order; a span or call that one of them joined is not looked at by the rules after it:
--   span, trace_span  the very span in which the call was recorded, with the call's qid or without any. A span that
--                     carries another qid is never the call's.
--   qid               a call that was recorded without a span takes an outermost span of its query that expects a
--                     payload: one with the same digest, else by order where as many calls as spans are left.
--   nesting           a model-call span around a call's span, or the only one inside it: another sighting of that call.

-- The ancestors of every span that a rule may have to look around from. The bound is a guard against cycles.
CREATE TABLE above AS
WITH RECURSIVE up AS (
    SELECT trace_id, span_id, parent AS ancestor, 1 AS depth
    FROM span
    WHERE parent IS NOT NULL AND (expects OR (trace_id, span_id) IN (SELECT (trace_id, span_id) FROM ids))
  UNION ALL
    SELECT up.trace_id, up.span_id, p.parent, up.depth + 1
    FROM up JOIN span p ON p.trace_id = up.trace_id AND p.span_id = up.ancestor
    WHERE p.parent IS NOT NULL AND up.depth < 100
)
SELECT trace_id, span_id, ancestor, min(depth) AS depth FROM up WHERE ancestor <> span_id GROUP BY ALL;

-- The query that a span without a qid belongs to: that of the nearest span around it which has one.
CREATE TABLE around AS
SELECT a.trace_id, a.span_id, arg_min(p.qid, a.depth) AS qid, arg_min(p.in_window, a.depth) AS in_window
FROM above a JOIN span p ON p.trace_id = a.trace_id AND p.span_id = a.ancestor
WHERE p.qid IS NOT NULL
GROUP BY ALL;

-- The spans that ought to have a payload here.
CREATE TABLE wanted AS
SELECT s.*, coalesce(s.qid, n.qid) AS home, q.state AS home_state
FROM span s
    LEFT JOIN around n ON s.qid IS NULL AND n.trace_id = s.trace_id AND n.span_id = s.span_id
    LEFT JOIN query q ON q.qid = coalesce(s.qid, n.qid)
WHERE s.expects
    AND coalesce(q.state, '') NOT IN ('erased', 'outside')
    AND (q.state = 'read' OR coalesce(n.in_window, s.in_window));

CREATE TABLE joined AS
SELECT r.qid, r.call, r.number, s.trace_id, s.span_id,
    CASE WHEN s.qid IS NULL THEN 'trace_span' ELSE 'span' END AS joined_by,
    CASE WHEN s.qid IS NULL THEN 'the span carries no prompt_trace.qid' || lost(s.dropped) ELSE '' END AS detail
FROM recorded r
    JOIN ids i ON i.qid = r.qid AND i.call = r.call
    JOIN span s ON s.trace_id = i.trace_id AND s.span_id = i.span_id
WHERE s.qid IS NULL OR s.qid = r.qid;

CREATE VIEW free AS
SELECT * FROM wanted w
WHERE NOT EXISTS (SELECT 1 FROM joined j WHERE j.trace_id = w.trace_id AND j.span_id = w.span_id);

CREATE VIEW spanless AS
SELECT * FROM recorded r
WHERE NOT EXISTS (SELECT 1 FROM ids i WHERE i.qid = r.qid AND i.call = r.call)
    AND NOT EXISTS (SELECT 1 FROM joined j WHERE j.qid = r.qid AND j.call = r.call);

CREATE TABLE outermost AS
SELECT f.qid, f.trace_id, f.span_id, f.digest, f.start_ns
FROM free f
WHERE f.qid IS NOT NULL
    AND NOT EXISTS (
        SELECT 1 FROM above a JOIN wanted o ON o.trace_id = a.trace_id AND o.span_id = a.ancestor
        WHERE a.trace_id = f.trace_id AND a.span_id = f.span_id AND o.qid = f.qid
    );

INSERT INTO joined
WITH c AS (
    SELECT *, row_number() OVER (PARTITION BY qid, digest ORDER BY number) AS place FROM spanless WHERE digest IS NOT NULL
), s AS (
    SELECT *, row_number() OVER (PARTITION BY qid, digest ORDER BY start_ns, trace_id, span_id) AS place
    FROM outermost WHERE digest IS NOT NULL
)
SELECT c.qid, c.call, c.number, s.trace_id, s.span_id, 'qid',
    'recorded without a span; this one of its query has the same digest'
FROM c JOIN s ON s.qid = c.qid AND s.digest = c.digest AND s.place = c.place;

INSERT INTO joined
WITH c AS (
    SELECT *, row_number() OVER (PARTITION BY qid ORDER BY number) AS place, count(*) OVER (PARTITION BY qid) AS many
    FROM spanless
), s AS (
    SELECT o.*, row_number() OVER (PARTITION BY o.qid ORDER BY o.start_ns, o.trace_id, o.span_id) AS place,
        count(*) OVER (PARTITION BY o.qid) AS many
    FROM outermost o JOIN free f ON f.trace_id = o.trace_id AND f.span_id = o.span_id
)
SELECT c.qid, c.call, c.number, s.trace_id, s.span_id, 'qid',
    CASE WHEN c.many = 1 THEN 'recorded without a span; this is the only one of its query that is left'
    ELSE 'recorded without a span; matched by order, ' || c.many || ' calls and as many spans of the query were left' END
FROM c JOIN s ON s.qid = c.qid AND s.place = c.place AND s.many = c.many
WHERE c.digest IS NULL OR s.digest IS NULL;  -- two digests that differ are two prompts

INSERT INTO joined
SELECT DISTINCT j.qid, j.call, j.number, f.trace_id, f.span_id, 'nesting', 'around the span of its call'
FROM free f
    JOIN above a ON a.trace_id = f.trace_id AND a.ancestor = f.span_id
    JOIN joined j ON j.trace_id = a.trace_id AND j.span_id = a.span_id
WHERE f.home IS NULL OR f.home = j.qid;

-- Left-over spans inside the span of a call, with that span: the nearest of those around them.
CREATE TABLE inside AS
SELECT DISTINCT f.trace_id, f.span_id, j.span_id AS owner, j.qid
FROM free f
    JOIN above a ON a.trace_id = f.trace_id AND a.span_id = f.span_id
    JOIN wanted o ON o.trace_id = a.trace_id AND o.span_id = a.ancestor
    JOIN joined j ON j.trace_id = o.trace_id AND j.span_id = o.span_id
WHERE f.home IS NULL OR f.home = j.qid
QUALIFY rank() OVER (PARTITION BY f.trace_id, f.span_id ORDER BY a.depth) = 1;

-- How many model calls each of these spans holds: a chain of spans, each inside the one before, is one.
CREATE TABLE crowd AS
SELECT i.trace_id, i.owner, count(DISTINCT i.span_id) AS many
FROM inside i
WHERE NOT EXISTS (
    SELECT 1 FROM above a JOIN inside d ON d.trace_id = a.trace_id AND d.span_id = a.span_id AND d.owner = i.owner
    WHERE a.trace_id = i.trace_id AND a.ancestor = i.span_id
)
GROUP BY ALL;

INSERT INTO joined
SELECT DISTINCT j.qid, j.call, j.number, i.trace_id, i.span_id, 'nesting', 'inside the span of its call'
FROM inside i
    JOIN crowd c ON c.trace_id = i.trace_id AND c.owner = i.owner AND c.many = 1
    JOIN joined j ON j.trace_id = i.trace_id AND j.span_id = i.owner AND j.qid = i.qid;

-- A query of which nothing is stored and no span expects a payload is named by its first span.
CREATE TABLE vanished AS
SELECT s.*
FROM span s JOIN query q ON q.qid = s.qid
WHERE q.state = 'absent' AND s.in_window AND NOT EXISTS (SELECT 1 FROM wanted w WHERE w.home = s.qid)
QUALIFY row_number() OVER (PARTITION BY s.qid ORDER BY s.start_ns, s.trace_id, s.span_id) = 1;
