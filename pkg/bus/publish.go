package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Publish sends a message that may be lost. It fails while the bus is away.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.nc.Publish(subject, data); err != nil {
		return fault.New(fault.Unavailable, "publish on %s: %w", subject, err)
	}
	return nil
}

// Durable is a message that must be stored.
type Durable struct {
	Subject string
	Type    string // the content type; empty means protobuf
	Data    []byte
	Guard   *uint64 // store only while the last sequence on Subject is this; nil means always
	Once    bool    // Subject takes one message for ever, and only this publisher uses it; excludes Guard
}

// PublishDurable stores a message and returns its sequence in its stream. It retries until ctx
// is done or, without a deadline, for DefaultTimeout. An error of kind Conflict means that the
// guard did not hold, or that the subject is full: another write came first. That may have been
// an earlier try of this call whose answer was lost; read the stream to find out. With Once, a
// message that is stored already is no error, and the sequence is 0.
//
// A message has no message id: the bus knows ids by the stream, so any publisher to the stream
// could have this one's message thrown away as a duplicate.
func (c *Conn) PublishDurable(ctx context.Context, d Durable) (uint64, error) {
	if err := CheckStores(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	m := &nats.Msg{Subject: d.Subject, Header: nats.Header{}, Data: d.Data}
	if d.Type != "" {
		m.Header["Content-Type"] = []string{d.Type}
	}
	switch {
	case d.Once:
		setGuard(m.Header, "", 0)
	case d.Guard != nil:
		setGuard(m.Header, "", *d.Guard)
	}
	ack, err := c.publishRetrying(ctx, m)
	if d.Once && isCode(err, codeWrongLastSequence) {
		return 0, nil // by an earlier try
	}
	if err != nil {
		return 0, fmt.Errorf("store on %s: %w", d.Subject, err)
	}
	return ack.Sequence, nil
}

// The JetStream error codes that are decided upon (nats-server: server/errors.json).
const (
	codeWrongLastSequence = 10071 // the guard did not hold
	// it cannot be checked while another write under it is on its way to the replicas
	codeWrongLastSequenceConstant = 10164
	// the message asks for a roll-up that there is not, or that the stream does not allow
	codeRollup             = 10111
	codeDuplicateInProcess = 10158 // a message with this id is on its way to the replicas
	codeNotStored          = 10077 // anything that went wrong in the store; the description says what
	codeTooLarge           = 10054 // the message is larger than the stream allows
	// the bus does not have, or no longer has, the batch's first messages: it was started anew in between
	codeBatchIncomplete = 10176
	codeBatchDuplicate  = 10201 // a message of the batch was stored before
)

// subjectFull describes a codeNotStored that is no trouble of the store: the subject is
// full and new messages are refused.
const subjectFull = "maximum messages per subject exceeded"

// pubAck is JetStream's answer to a publish.
type pubAck struct {
	Stream    string `json:"stream"`
	Sequence  uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	BatchSize int    `json:"count"`
	Error     *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// apiError is a refusal by JetStream.
type apiError struct {
	code        int
	description string
}

func (e *apiError) Error() string {
	if e.code == codeWrongLastSequenceConstant {
		return "an earlier write is not on enough servers of the bus yet" // its description would name a number
	}
	return e.description + " (" + strconv.Itoa(e.code) + ")"
}

// parseAck turns an answer into an ack or an error with a kind.
func parseAck(data []byte) (pubAck, error) {
	var a pubAck
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fault.New(fault.Unavailable, "answer to a publish: %w", err)
	}
	if a.Error == nil {
		return a, nil
	}
	err := &apiError{a.Error.ErrCode, a.Error.Description}
	return a, fault.New(kindOf(a.Error.Code, err), "%w", err)
}

// kindOf returns the kind of a refusal with a status: a server's own trouble is a 5xx and may pass.
func kindOf(status int, err *apiError) fault.Kind {
	switch {
	case err.code == codeWrongLastSequence, err.code == codeBatchDuplicate,
		err.code == codeNotStored && err.description == subjectFull:
		return fault.Conflict
	case err.code == codeTooLarge:
		return fault.Invalid
	case status >= 500, status == 408, status == 429, err.code == codeBatchIncomplete,
		err.code == codeWrongLastSequenceConstant, err.code == codeDuplicateInProcess:
		return fault.Unavailable
	}
	return fault.Internal
}

// publishOnce sends one message and waits for its ack. Its error is Unavailable when the outcome is not known.
func (c *Conn) publishOnce(ctx context.Context, m *nats.Msg) (pubAck, error) {
	answer, err := c.request(ctx, m)
	if err != nil {
		return pubAck{}, err
	}
	return parseAck(answer.Data)
}

// publishRetrying sends one message until it is acknowledged, refused or ctx is done. A
// refusal may mean that an earlier try was stored. The last error is one of NotSent only when every try was.
func (c *Conn) publishRetrying(ctx context.Context, m *nats.Msg) (ack pubAck, err error) {
	var open error
	began := time.Now()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		ack, err = c.publishOnce(once, m)
		cancel()
		if !fault.Is(err, fault.Unavailable) {
			return ack, err
		}
		if refused := full(err, began); refused != nil {
			return ack, refused
		}
		if !NotSent(err) {
			open = err
		}
		// A try without the time to be answered would leave its outcome open.
		if until, ok := ctx.Deadline(); ok && time.Until(until) < 2*wait {
			return ack, cmp.Or(open, err)
		}
		if sleep(ctx, wait); ctx.Err() != nil {
			return ack, cmp.Or(open, err)
		}
	}
}

func requestError(err error) error {
	switch {
	case errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization):
		return fault.New(fault.Denied, "%w", err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.New(fault.Invalid, "%w", err)
	}
	return fault.New(fault.Unavailable, "%w", err)
}

// setGuard adds the condition that the last sequence over subject is seq; an empty subject means the message's own.
func setGuard(h nats.Header, subject string, seq uint64) {
	h["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(seq, 10)}
	if subject != "" {
		h["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{subject}
	}
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.code == code
}
