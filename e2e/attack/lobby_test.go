package attack

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func init() {
	add(attack{
		name: "leave the lobby", as: "a stranger",
		tried:   "requests on subjects of servers and people, and subscriptions to the requests of others",
		stopped: "permissions of the lobby", run: leaveLobby,
	})
	add(attack{
		name: "flood the lobby", as: "a stranger",
		tried:   "requests to join without a pause on 8 connections, each with a key of its own",
		stopped: "an account of its own with few connections; some hundred requests a second are looked at",
		flood:   floodLobby,
	})
}

// stranger connects without credentials.
func (w *world) stranger() (*nats.Conn, error) {
	return nats.Connect(w.URL(), nats.Timeout(time.Minute),
		nats.CustomInboxPrefix(topology.Inbox(topology.UserLobby)), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// knock is a request to join with a new key.
func knock() (*nats.Msg, error) {
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return nil, err
	}
	seal, err := trust.NewSealKey()
	if err != nil {
		return nil, err
	}
	said, err := proto.Marshal(&registryv1.Knock{
		PublicKey: public, SealKey: seal.Public(),
		Sysinfo: &serverv1.Sysinfo{Hostname: "stranger", Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	})
	if err != nil {
		return nil, err
	}
	signature, err := trust.SignKnock(seed, said)
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(&registryv1.KnockRequest{Knock: said, Signature: signature})
	return &nats.Msg{Subject: topology.KnockSubject(public), Data: data}, err
}

func floodLobby(ctx context.Context, t *trial) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				t.knockUntilClosed(ctx)
			}
		})
	}
	all.Wait()
}

// knockUntilClosed asks on one connection until the bus has enough of it.
func (t *trial) knockUntilClosed(ctx context.Context) {
	c, err := t.stranger()
	if err != nil {
		time.Sleep(20 * time.Millisecond) // the account is full, or suspended
		return
	}
	defer c.Close()
	for ctx.Err() == nil && c.IsConnected() {
		m, err := knock()
		if err == nil {
			err = c.PublishMsg(m)
		}
		if err != nil {
			return
		}
	}
}

func leaveLobby(t *trial) string {
	c, err := t.stranger()
	for end := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(end); c, err = t.stranger() {
		time.Sleep(100 * time.Millisecond) // the flood before may have closed the lobby
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, subject := range []string{
		topology.BeatSubject(t.attacker.address), topology.EnrolSubject(t.attacker.address),
		topology.APISubject(topology.UserRegistry, "read", "list-servers", "operator"),
		topology.CoreAPI + ".INFO", topology.Inbox(topology.UserLobby) + ".forged",
	} {
		if t.denied(c, subject) == nil {
			t.Errorf("it may publish on %s", subject)
		}
	}
	for _, subject := range []string{topology.KnockSubjects, ">"} { // answers are sealed, and may be listened to
		sub, err := c.SubscribeSync(subject)
		if err = errors.Join(err, c.FlushTimeout(5*time.Second)); err != nil {
			t.Fatal(err)
		}
		err = c.LastError()
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), subject) {
			t.Errorf("it may listen to %s: %v", subject, err)
		}
		_ = sub.Unsubscribe()
	}
	return "each is refused"
}
