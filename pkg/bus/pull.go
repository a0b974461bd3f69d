package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// pulls is how many requests for a message are open at a time. Together with the largest message it
	// bounds what is on its way: all consumers of a process together stay below what the bus holds
	// for a client before it disconnects it.
	pulls = 16
	// pullLate is how long after its end an unanswered request is repeated, and how often that is looked for.
	pullLate = 2 * time.Second
)

// pullFor returns how long a request waits for a message at the bus; see package topology.
func (c *session) pullFor() time.Duration {
	if c.ofSeveral() {
		return topology.PullOfSeveral
	}
	return topology.PullAlone
}

// puller requests messages of a durable consumer, each with a request of its own. A service pulls through
// an import of its account, and there the bus ends a request at the first message without data and headers:
// a request for many messages would lose those behind it, and anybody may publish such a message.
type puller struct {
	c       *Conn
	subject string
	body    []byte
	expires time.Duration // how long a request waits for a message at the bus
	answers chan *nats.Msg
	open    map[*nats.Subscription]time.Time // one for each request, and when it was sent
	checked time.Time                        // when unanswered requests were last repeated
}

// pullEach hands each message to take until ctx is done or something breaks.
func (c *Conn) pullEach(ctx context.Context, stream, durable string, take func(*delivery)) error {
	once, done, explain := c.overLink(ctx)
	defer done()
	expires := c.pullFor()
	body, err := json.Marshal(map[string]any{"batch": 1, "expires": expires})
	if err != nil {
		return err
	}
	p := &puller{
		c: c, subject: c.api + ".CONSUMER.MSG.NEXT." + stream + "." + durable, body: body, expires: expires,
		answers: make(chan *nats.Msg, 2*pulls), open: map[*nats.Subscription]time.Time{},
	}
	defer p.giveBack()
	for range pulls {
		if err := p.begin(); err != nil {
			return err
		}
	}
	for {
		m, err := p.next(once)
		if err != nil {
			return explain(err)
		}
		if m != nil {
			take(m)
		}
	}
}

// begin opens a request with an inbox of its own: a message comes under the subject on which it was
// published, so that only its subscription tells which request it answers.
func (p *puller) begin() error {
	sub, err := p.c.nc.ChanSubscribe(p.c.nc.NewInbox(), p.answers)
	if err != nil {
		return requestError(err)
	}
	return p.request(sub)
}

func (p *puller) request(sub *nats.Subscription) error {
	p.open[sub] = time.Now()
	if err := p.c.nc.PublishRequest(p.subject, sub.Subject, p.body); err != nil {
		return requestError(err)
	}
	return nil
}

// next waits for an answer and opens the next request. It returns nil for an answer without a message.
func (p *puller) next(ctx context.Context) (*delivery, error) {
	if time.Since(p.checked) > pullLate {
		if err := p.repeatLate(); err != nil {
			return nil, err
		}
	}
	var m *nats.Msg
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(pullLate):
		return nil, nil
	case m = <-p.answers:
	}
	status := m.Header.Get("Status")
	if m.Reply == "" && status != "408" {
		return nil, fault.New(fault.Unavailable, "pull: %s %s", status, m.Header.Get("Description"))
	}
	if _, ok := p.open[m.Sub]; ok {
		if err := p.request(m.Sub); err != nil {
			return nil, err
		}
	}
	if m.Reply == "" { // the request ended without a message
		return nil, nil
	}
	return p.newDelivery(m)
}

// repeatLate opens the requests again that were never answered: their answer was lost.
func (p *puller) repeatLate() error {
	p.checked = time.Now()
	for sub, sent := range p.open {
		if time.Since(sent) < p.expires+pullLate {
			continue
		}
		delete(p.open, sub)
		_ = sub.Unsubscribe()
		if err := p.begin(); err != nil {
			return err
		}
	}
	return nil
}

// giveBack ends the open requests and returns the messages that came meanwhile.
func (p *puller) giveBack() {
	for sub := range p.open {
		_ = sub.Unsubscribe()
	}
	_ = p.c.nc.FlushTimeout(drainWithin)
	for {
		select {
		case m := <-p.answers:
			if d, err := p.newDelivery(m); err == nil {
				_ = d.nak()
			}
		default:
			return
		}
	}
}

// delivery is a message of a durable consumer, and how to answer it.
type delivery struct {
	msg       *nats.Msg
	answer    func(subject string, data []byte) error
	sequence  uint64
	stored    time.Time
	delivered uint64
}

// newDelivery reads where a message is stored, from the subject for its answer: $JS.ACK.STREAM.CONSUMER.
// DELIVERED.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING, or the same with DOMAIN.ACCOUNT before STREAM.
func (p *puller) newDelivery(m *nats.Msg) (*delivery, error) {
	t := strings.Split(m.Reply, ".")
	if len(t) >= 11 {
		t = t[2:]
	}
	if len(t) < 9 {
		return nil, fault.New(fault.Internal, "a message without a place: %q", m.Reply)
	}
	var n [3]uint64
	for i, token := range []string{t[4], t[5], t[7]} {
		var err error
		if n[i], err = strconv.ParseUint(token, 10, 63); err != nil {
			return nil, fault.New(fault.Internal, "read the place of a message in %q: %w", m.Reply, err)
		}
	}
	return &delivery{
		msg: m, answer: p.c.nc.Publish, delivered: n[0], sequence: n[1], stored: time.Unix(0, int64(n[2])),
	}, nil
}

// Subject returns the subject on which the message was published.
func (d *delivery) Subject() string { return d.msg.Subject }

func (d *delivery) Size() int { return len(d.msg.Data) }

func (d *delivery) message() Message {
	return Message{
		Subject: d.msg.Subject, Header: d.msg.Header, Data: d.msg.Data,
		Sequence: d.sequence, Time: d.stored, Delivered: d.delivered,
	}
}

// The answers to a message, in JetStream's words.
func (d *delivery) ack() error { return d.answer(d.msg.Reply, []byte("+ACK")) }

func (d *delivery) inProgress() error { return d.answer(d.msg.Reply, []byte("+WPI")) }

func (d *delivery) nak() error { return d.answer(d.msg.Reply, []byte("-NAK")) }

func (d *delivery) nakWithDelay(delay time.Duration) error {
	return d.answer(d.msg.Reply, fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds()))
}

func (d *delivery) term(reason string) error { return d.answer(d.msg.Reply, []byte("+TERM "+reason)) }
