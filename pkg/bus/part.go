package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Part says which messages of a stream are read at once.
type Part struct {
	Filter string    // may hold wildcards; ">" matches every message at no cost
	From   uint64    // start at this sequence
	Since  time.Time // start at the first message that was stored then or later, instead of From
	Count  int       // end behind this many messages
	Bytes  int       // end behind the message with which the part reaches this size
}

// DirectGetPart reads messages of a stream in order, without a consumer, and reports whether more match now.
func (c *Conn) DirectGetPart(ctx context.Context, stream string, p Part) (part []Message, more bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	request := map[string]any{"batch": p.Count, "max_bytes": p.Bytes, "next_by_subj": p.Filter}
	if p.Since.IsZero() {
		request["seq"] = max(p.From, 1)
	} else {
		request["start_time"] = p.Since.UTC()
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, false, err
	}
	err = c.directGetMany(ctx, stream, body, func(m *nats.Msg) (end bool, err error) {
		if statusOf(m.Header) == "204" { // the end of the part
			pending, _ := strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
			more = pending > 0
			return true, nil
		}
		s, err := stored(m)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		part = append(part, s)
		return false, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read a part of %s: %w", stream, err)
	}
	return part, more, nil
}

// directGetMany asks a stream for several messages, and hands each answer to take until that is the end.
func (c *Conn) directGetMany(
	ctx context.Context, stream string, body []byte, take func(*nats.Msg) (end bool, err error),
) error {
	once, done, explain := c.overLink(ctx)
	defer done()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(c.api+".DIRECT.GET."+stream, inbox, body); err != nil {
		return requestError(err)
	}
	for {
		m, err := sub.NextMsgWithContext(once)
		if err != nil {
			return requestError(explain(err))
		}
		if end, err := take(m); end || err != nil {
			return err
		}
	}
}
