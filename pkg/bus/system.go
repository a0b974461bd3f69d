package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// System is a connection as a user of the system account, in which each server of the bus answers about itself and its
// clients. It is safe for concurrent use.
type System struct{ conn *Conn }

// NewSystem returns a System over a connection, whose user must be in the system account: on any other connection no
// server answers, and a request ends when its time is up. The caller closes the connection.
func NewSystem(conn *Conn) *System { return &System{conn} }

// OnBack calls f after each reconnect; see Conn.OnBack.
func (s *System) OnBack(f func()) { s.conn.OnBack(f) }

// Server is one server of the bus.
type Server struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// serversAnswering is how many answers of servers of the bus wait to be read. askServers is called each second, and the
// room for answersWaiting was most of what an idle access service allocated.
const serversAnswering = 64

// askServers sends a request to all servers of the bus and hands each answer to take, until that
// returns true or an error, or ctx is done.
func (s *System) askServers(
	ctx context.Context, subject string, data []byte, take func(answer []byte) (done bool, err error),
) error {
	inbox, answers := s.conn.nc.NewInbox(), make(chan *nats.Msg, serversAnswering)
	sub, err := s.conn.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.conn.nc.PublishRequest(subject, inbox, data); err != nil {
		return requestError(err)
	}
	for {
		select {
		case m := <-answers:
			if noResponders(m) {
				return requestError(nats.ErrNoResponders)
			}
			if done, err := take(m.Data); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return requestError(ctx.Err())
		}
	}
}

// askServer sends a request to one server of the bus. An error that the server answers is NotFound.
func (s *System) askServer(
	ctx context.Context, subject string, query []byte, take func(data json.RawMessage) error,
) error {
	m, err := s.conn.nc.RequestWithContext(ctx, subject, query)
	if err != nil {
		return requestError(err)
	}
	var a struct {
		Data  json.RawMessage `json:"data"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fault.New(fault.Unavailable, "read the bus's answer: %w", err)
	}
	if a.Error != nil {
		return fault.New(fault.NotFound, "%s", a.Error.Description)
	}
	return take(a.Data)
}

// noResponders reports whether the bus says that nothing answers a request.
func noResponders(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

// serversWithin is how long the servers of the bus have to answer: the bus counts one that died for a while.
const serversWithin = time.Second

// Servers returns the servers of the bus that answer.
func (s *System) Servers(ctx context.Context) ([]Server, error) {
	ctx, cancel := context.WithTimeout(ctx, serversWithin)
	defer cancel()
	var out []Server
	err := s.askServers(ctx, topology.SystemStats, nil, func(answer []byte) (bool, error) {
		var a struct {
			Server Server `json:"server"`
			Stats  struct {
				Active int `json:"active_servers"`
			} `json:"statsz"`
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			return false, fault.New(fault.Unavailable, "read the bus's servers: %w", err)
		}
		out = append(out, a.Server)
		return len(out) >= a.Stats.Active, nil
	})
	if err != nil && len(out) == 0 {
		return nil, fmt.Errorf("list the bus's servers: %w", err)
	}
	return out, nil
}

// UpdateAccount replaces the JWT of an account on the n servers of the bus. They end connections of
// users whom it no longer admits. It returns an error unless each of them has confirmed.
func (s *System) UpdateAccount(ctx context.Context, token string, n int) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	confirmed := 0
	err := s.askServers(ctx, topology.SystemClaimsUpdate, []byte(token), func(answer []byte) (bool, error) {
		var a struct {
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			return false, fault.New(fault.Unavailable, "read the answer: %w", err)
		}
		if a.Error != nil {
			return false, fault.New(fault.Unavailable, "the bus refuses it: %s", a.Error.Description)
		}
		confirmed++
		return confirmed >= n, nil
	})
	if err != nil {
		return fmt.Errorf("update account (%d of %d servers of the bus confirmed): %w", confirmed, n, err)
	}
	return nil
}

// AccountJWTs returns the JWTs that the n servers of the bus have of an account; empty for a server
// that has none.
func (s *System) AccountJWTs(ctx context.Context, accountKey string, n int) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var out []string
	err := s.askServers(ctx, topology.SystemClaimsLookup(accountKey), nil, func(answer []byte) (bool, error) {
		out = append(out, string(answer))
		return len(out) >= n, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look an account up (%d of %d servers of the bus answered): %w", len(out), n, err)
	}
	return out, nil
}
