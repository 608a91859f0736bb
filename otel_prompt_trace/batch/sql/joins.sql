-- The table joins: every call, and every span that ought to have a payload, joined or named with a reason.
SELECT j.qid, j.call, j.trace_id, j.span_id, j.joined_by, 'joined' AS state, j.detail, s.name AS span_name, s.service,
    j.number, s.start_ns
FROM joined j JOIN span s ON s.trace_id = j.trace_id AND s.span_id = j.span_id
UNION ALL
SELECT r.qid, r.call, i.trace_id, i.span_id, NULL, 'payload_without_span',
    CASE
        WHEN i.span_id IS NULL AND n.spans > 0 THEN 'recorded without a span; its query has ' || n.spans
            || ' spans here, and none that is surely its own'
        WHEN i.span_id IS NULL THEN 'recorded without a span; its query has none here'
        WHEN s.qid IS NOT NULL THEN 'its span carries another qid, ' || s.qid
        ELSE 'its span is not in the archive: not sampled, not exported, or in another file'
    END, s.name, s.service, r.number, NULL
FROM recorded r
    LEFT JOIN (SELECT * FROM ids QUALIFY row_number() OVER (PARTITION BY qid, call ORDER BY trace_id, span_id) = 1) i
        ON i.qid = r.qid AND i.call = r.call
    LEFT JOIN span s ON s.trace_id = i.trace_id AND s.span_id = i.span_id
    LEFT JOIN (SELECT qid, count(*) AS spans FROM span GROUP BY qid) n ON n.qid = r.qid
WHERE NOT EXISTS (SELECT 1 FROM joined j WHERE j.qid = r.qid AND j.call = r.call)
UNION ALL
SELECT f.home, NULL, f.trace_id, f.span_id, NULL, 'span_without_payload',
    CASE
        WHEN f.home IS NULL THEN 'it carries no prompt_trace.qid, and no recorded call names it'
        WHEN c.many > 1 THEN 'one of ' || c.many
            || ' model-call spans inside the span of a single call: which of them was recorded can''t be told'
        WHEN f.home_state = 'failed' THEN 'the payload of its query could not be read'
        WHEN f.home_state = 'read' AND q.calls = 0 THEN 'the record of its query holds no call'
        WHEN f.home_state = 'read' THEN 'the record of its query holds ' || q.calls || ' call(s), none of this span'
        ELSE 'nothing is stored of its query'
    END
    || CASE WHEN q.unreadable > 0 THEN '; ' || q.unreadable || ' events there can''t be interpreted' ELSE '' END
    || lost(f.dropped), f.name, f.service, NULL, f.start_ns
FROM free f
    LEFT JOIN query q ON q.qid = f.home
    LEFT JOIN inside i ON i.trace_id = f.trace_id AND i.span_id = f.span_id
    LEFT JOIN crowd c ON c.trace_id = i.trace_id AND c.owner = i.owner
UNION ALL
SELECT v.qid, NULL, v.trace_id, v.span_id, NULL, 'span_without_payload', 'nothing is stored of its query'
    || lost(v.dropped), v.name, v.service, NULL, v.start_ns
FROM vanished v
ORDER BY 1 NULLS LAST, number NULLS LAST, start_ns NULLS LAST, 3, 4, 5
