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
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

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
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		ack, err = c.publishOnce(once, m)
		cancel()
		if !fault.Is(err, fault.Unavailable) {
			return ack, err
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

// sign answers the server's challenge with the key of the credentials.
func sign(credentials Credentials, nonce []byte) ([]byte, error) {
	_, seed, err := credentials()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.code == code
}
