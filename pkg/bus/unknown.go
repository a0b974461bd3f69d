package bus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// unknownAfter is how long a service waits before it refuses a method that it does not
	// have: while replicas of two versions run, the other one may have it and answers first.
	unknownAfter = time.Second
	// unknownAtOnce bounds how many of these refusals wait; above it they are sent at once.
	unknownAtOnce = 64
	// unknownGroup is the queue group of these endpoints. The bus delivers a message once to
	// each group, whatever its subjects, so the methods' own group would lose requests to it.
	unknownGroup = "unknown"
)

// RefuseUnknown answers requests for methods that nothing handles with the code
// UNKNOWN_METHOD and the version of this service. Call it after the last Handle: a method
// that is handled later would be refused until then. A service that stops ends this before its methods: a request that
// came only here would get no answer at all.
func (s *Service) RefuseUnknown() error {
	waiting := make(chan struct{}, unknownAtOnce)
	everything := topology.APISubject(s.name, "*", "*", "*")
	sub, err := s.conn.nc.QueueSubscribe(everything, unknownGroup, func(m *nats.Msg) {
		if s.handles(m.Subject) {
			return
		}
		r := message{m}
		select {
		case waiting <- struct{}{}:
			time.AfterFunc(unknownAfter, func() {
				defer func() { <-waiting }()
				s.refuse(r, s.unknownMethod(r.Subject()))
			})
		default:
			s.refuse(r, s.unknownMethod(r.Subject()))
		}
	})
	if err != nil {
		return fault.New(fault.Unavailable, "subscribe to %s: %w", everything, err)
	}
	s.conn.settleSubscription()
	s.OnClose(func() { drain(sub) })
	return nil
}

// message is a request that came outside of package micro.
type message struct{ *nats.Msg }

func (m message) Subject() string { return m.Msg.Subject }

func (m message) Reply() string { return m.Msg.Reply }

func (m message) Headers() micro.Headers { return micro.Headers(m.Header) }

// handles reports whether an endpoint of its own answers requests on the subject.
func (s *Service) handles(subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled[withoutActor(subject)]
}

// handle notes that an endpoint answers requests for a method.
func (s *Service) handle(access, method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[withoutActor(topology.APISubject(s.name, access, method, "*"))] = true
}

// withoutActor returns an API subject up to its method.
func withoutActor(subject string) string {
	return subject[:max(0, strings.LastIndexByte(subject, '.'))]
}

// unknownMethod returns the refusal of a method that nothing handles.
func (s *Service) unknownMethod(subject string) error {
	t := strings.Split(withoutActor(subject), ".")
	method, access := t[len(t)-1], t[len(t)-2]
	what := fmt.Sprintf("unknown method %s (access %s)", method, access)
	if slices.Contains(s.served(), method) {
		what = fmt.Sprintf("method %s has another access than %s", method, access)
	}
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{
		Code: code.UnknownMethod, Message: fmt.Sprintf("%s; this %s is version %s", what, s.name, s.version),
		Try: "garrison versions --server",
	})
}

// served returns the names of the methods that are handled, as in subjects.
func (s *Service) served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for subject := range s.handled {
		out = append(out, subject[strings.LastIndexByte(subject, '.')+1:])
	}
	return out
}
