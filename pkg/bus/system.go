package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
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

// Client is one connection of a user to a server of the bus.
type Client struct {
	Server  Server
	ID      uint64 // unique among those of the server, and growing
	User    string // the public key of the user
	Address string // of the user
	Since   time.Time
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
// users whom it does not admit any more. It returns an error unless each of them has confirmed.
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

// clientsPerPage bounds the answer to one request for connections, which carry their JWTs.
const clientsPerPage = 256

// Clients returns the connections of an account to one server of the bus. The server checks every JWT
// for its answer, about half a millisecond each, and answers nothing else of the system account meanwhile; so Clients
// asks for small parts, and rests after each for as long as it took.
func (s *System) Clients(ctx context.Context, of Server, accountKey string) ([]Client, error) {
	var out []Client
	for {
		begun := time.Now()
		page, err := s.clients(ctx, of, accountKey, len(out))
		if err != nil {
			return nil, fmt.Errorf("list the connections to server %s of the bus: %w", of.Name, err)
		}
		for _, i := range page {
			out = append(out, Client{
				Server: of, ID: i.CID, User: i.User, Since: i.Start,
				Address: net.JoinHostPort(i.IP, strconv.Itoa(i.Port)),
			})
		}
		if len(page) < clientsPerPage {
			return out, nil
		}
		select {
		case <-time.After(time.Since(begun)):
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "list the connections to server %s of the bus: %w", of.Name,
				ctx.Err())
		}
	}
}

// Sender is a connection and what its client has sent since it was opened.
type Sender struct {
	Client
	Messages, Bytes uint64
	At              time.Time // when the server counted, by its clock
}

// Senders lists the n connections of an account to a server of the bus that have sent the most messages, and the n that
// were active last: one that opened a moment ago has sent less than many that are open for weeks. It lists them without
// their users, for which the server would check every JWT.
func (s *System) Senders(ctx context.Context, of Server, accountKey string, n int) ([]Sender, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	most, err := s.senders(ctx, of, map[string]any{"acc": accountKey, "limit": n, "sort": "msgs_from"})
	if err != nil || len(most) < n {
		return most, err
	}
	last, err := s.senders(ctx, of, map[string]any{"acc": accountKey, "limit": n, "sort": "last"})
	if err != nil {
		return nil, err
	}
	listed := map[uint64]bool{}
	for _, one := range most {
		listed[one.ID] = true
	}
	return append(most, slices.DeleteFunc(last, func(one Sender) bool { return listed[one.ID] })...), nil
}

// senders lists connections to a server of the bus.
func (s *System) senders(ctx context.Context, of Server, which map[string]any) ([]Sender, error) {
	query, err := json.Marshal(which)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Now         time.Time    `json:"now"`
		Connections []clientInfo `json:"connections"`
	}
	if err := s.askServer(ctx, topology.SystemConnections(of.ID), query, func(data json.RawMessage) error {
		return json.Unmarshal(data, &answer)
	}); err != nil {
		return nil, fmt.Errorf("list the senders to server %s of the bus: %w", of.Name, err)
	}
	out := make([]Sender, len(answer.Connections))
	for i, info := range answer.Connections {
		client := Client{Server: of, ID: info.CID, Since: info.Start}
		out[i] = Sender{Client: client, Messages: info.Messages, Bytes: info.Bytes, At: answer.Now}
	}
	return out, nil
}

// clients returns the connections to one server from an offset on, at most clientsPerPage.
func (s *System) clients(ctx context.Context, of Server, accountKey string, offset int) (page []clientInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	query, err := json.Marshal(map[string]any{
		"acc": accountKey, "auth": true, "offset": offset, "limit": clientsPerPage,
	})
	if err != nil {
		return nil, err
	}
	err = s.askServer(ctx, topology.SystemConnections(of.ID), query, func(data json.RawMessage) error {
		var a struct {
			Connections []clientInfo `json:"connections"`
		}
		err := json.Unmarshal(data, &a)
		page = a.Connections
		return err
	})
	return page, err
}

// clientInfo is a connection in the answer to a request for connections.
type clientInfo struct {
	CID   uint64    `json:"cid"`
	IP    string    `json:"ip"`
	Port  int       `json:"port"`
	Start time.Time `json:"start"`
	User  string    `json:"authorized_user"`

	Messages uint64 `json:"in_msgs"`
	Bytes    uint64 `json:"in_bytes"`
}

// Kick ends a connection. A connection that has ended already is not an error.
func (s *System) Kick(ctx context.Context, client Client) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	query := []byte(`{"cid":` + strconv.FormatUint(client.ID, 10) + `}`)
	err := s.askServer(ctx, topology.SystemKick(client.Server.ID), query, func(json.RawMessage) error { return nil })
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
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

// WatchClients calls opened and closed for each connection of an account that begins or ends, until
// stop is called. They must not block.
func (s *System) WatchClients(accountKey string, opened, closed func(Client)) (stop func(), err error) {
	watch := func(subject string, f func(Client)) (func(), error) {
		return s.conn.Subscribe(subject, func(m Message) {
			var e struct {
				Server Server `json:"server"`
				Client struct {
					ID    uint64    `json:"id"`
					User  string    `json:"user"`
					Host  string    `json:"host"`
					Start time.Time `json:"start"`
				} `json:"client"`
			}
			if json.Unmarshal(m.Data, &e) == nil && e.Client.User != "" {
				f(Client{
					Server: e.Server, ID: e.Client.ID, User: e.Client.User, Address: e.Client.Host,
					Since: e.Client.Start,
				})
			}
		})
	}
	first, err := watch(topology.SystemConnect(accountKey), opened)
	if err != nil {
		return nil, err
	}
	second, err := watch(topology.SystemDisconnect(accountKey), closed)
	if err != nil {
		first()
		return nil, err
	}
	return func() { first(); second() }, nil
}
