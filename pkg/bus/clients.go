package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Client is one connection of a user to a server of the bus.
type Client struct {
	Server  Server
	ID      uint64 // unique among those of the server, and growing
	User    string // the public key of the user
	Address string // of the user
	Since   time.Time
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

// AccountUse is how much an account uses the servers of the bus.
type AccountUse struct {
	Connections     int
	Messages, Bytes uint64 // that its clients sent since the servers started, over connections that ended too
}

// AccountUses returns how much accounts use the n servers of the bus, by their keys. It costs a server of the bus the
// same, however many connections there are.
func (s *System) AccountUses(ctx context.Context, accountKeys []string, n int) (map[string]AccountUse, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	query, err := json.Marshal(map[string]any{"accounts": accountKeys, "include_unused": true})
	if err != nil {
		return nil, err
	}
	answered, uses := 0, map[string]AccountUse{}
	err = s.askServers(ctx, topology.SystemAccountStats, query, func(answer []byte) (bool, error) {
		if err := addUses(uses, answer); err != nil {
			return false, err
		}
		answered++
		return answered >= n, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the use of accounts (%d of %d servers of the bus answered): %w", answered, n, err)
	}
	return uses, nil
}

// addUses adds what one server of the bus answered.
func addUses(uses map[string]AccountUse, answer []byte) error {
	var a struct {
		Data struct {
			Accounts []struct {
				Key         string `json:"acc"`
				Connections int    `json:"conns"`
				Received    struct {
					Messages uint64 `json:"msgs"`
					Bytes    uint64 `json:"bytes"`
				} `json:"received"`
			} `json:"account_statz"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return fault.New(fault.Unavailable, "read the bus's answer: %w", err)
	}
	for _, of := range a.Data.Accounts {
		use := uses[of.Key]
		use.Connections += of.Connections
		use.Messages += of.Received.Messages
		use.Bytes += of.Received.Bytes
		uses[of.Key] = use
	}
	return nil
}
