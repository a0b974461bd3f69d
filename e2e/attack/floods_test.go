package attack

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// unsuspended waits after a message of a size, so that the key is not suspended: what else stops the
// attack is to be seen.
func unsuspended(size int) {
	time.Sleep(max(time.Millisecond, time.Duration(size)*time.Second/(24<<20)))
}

// suspended is what ends each flood.
const suspended = "the bus refuses a key that sends too much"

func init() {
	add(attack{
		name: "slow others by beats", as: "server",
		tried: "beats without a pause on 2 connections", stopped: "beats have a connection of their own; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			beat, _ := proto.Marshal(&reportv1.Beat{ServerId: t.attacker.address.Server, BootId: "boot"})
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.Publish(topology.BeatSubject(t.attacker.address), beat)
			})
		},
	})
	add(attack{
		name: "slow others by large beats", as: "server",
		tried:   "beats of 200 KB on 4 connections",
		stopped: "beats have a connection of their own and are sized first; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			t.sideBySide(ctx, 4, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.Publish(topology.BeatSubject(t.attacker.address), make([]byte, 200_000))
			})
		},
	})
	add(attack{
		name: "hold up others' reports", as: "server",
		tried:   "reports about tasks that do not exist",
		stopped: "a queue for each server; unknown tasks are looked for once; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, i int) {
				_ = c.Publish(topology.ReportSubject(t.attacker.address, topology.ReportTask), t.taskReport(i))
			})
		},
	})
	add(attack{
		name: "hold up others' reports by invalid ones", as: "server",
		tried:   "reports that are not JSON, and say so",
		stopped: "a queue for each server; 16 dead letters a minute; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			m := nats.NewMsg(topology.ReportSubject(t.attacker.address, topology.ReportTask))
			m.Header.Set("Content-Type", "application/json")
			m.Data = []byte("{")
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) { _ = c.PublishMsg(m) })
		},
	})
	add(attack{
		name: "hold up others' lists of agents", as: "server",
		tried:   "invalid reports of the other kinds",
		stopped: "a queue for each server; 16 dead letters a minute; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			kinds := []string{topology.ReportAgents, topology.ReportSysinfo, topology.ReportReceipt}
			t.sideBySide(ctx, 3, t.attacker.login, func(c *nats.Conn, i int) {
				_ = c.Publish(topology.ReportSubject(t.attacker.address, kinds[i%3]), []byte{0xff})
			})
		},
	})
}

// The floods of what a service must look at one by one.
func init() {
	add(attack{
		name: "push out another's dead letters", as: "server",
		tried: "invalid reports of 100 KB", stopped: "dead letters are kept for each sender",
		flood: func(ctx context.Context, t *trial) {
			large := bytes.Repeat([]byte{0xff}, 100_000)
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.Publish(topology.ReportSubject(t.attacker.address, topology.ReportTask), large)
			})
		},
		run: deadLettersBounded,
	})
	add(attack{
		name: "keep another server busy", as: "server",
		tried:   "its bell as the reply subject of requests for one's own document",
		stopped: "a server that hears too many bells reads on a timer; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			own := topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(t.attacker.address)
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.PublishRequest(own, topology.BellSubject(t.victim.address), nil)
			})
		},
	})
	add(attack{
		name: "slow others by progress", as: "server",
		tried: "live progress without a pause", stopped: suspended,
		flood: func(ctx context.Context, t *trial) {
			live, _ := proto.Marshal(&taskv1.Progress{TaskId: client.NewID()})
			t.sideBySide(ctx, 2, t.attacker.login, func(c *nats.Conn, _ int) {
				_ = c.Publish(topology.LiveSubject(t.attacker.address, topology.LiveTask), live)
			})
		},
	})
	add(attack{
		name: "slow others by enrolments", as: "guest",
		tried: "requests to enrol without a pause", stopped: "one line a minute in the log; " + suspended,
		flood: func(ctx context.Context, t *trial) {
			who, token := t.guest()
			at := topology.ServerAddress{Cell: token.Cell, Server: token.ServerID}
			t.sideBySide(ctx, 2, who, func(c *nats.Conn, _ int) {
				_ = c.PublishRequest(topology.EnrolSubject(at), c.NewInbox(), []byte("no request"))
			})
		},
	})
}

// taskReport returns a report about a task that does not exist.
func (t *trial) taskReport(i int) []byte {
	data, _ := proto.Marshal(&reportv1.Report{
		ServerId: t.attacker.address.Server, Sequence: uint64(i + 1), At: timestamppb.New(time.Now()),
		Body: &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: client.NewID()}},
	})
	return data
}

// sideBySide sends without a pause on n connections until ctx is done. send gets the number of the message.
func (t *trial) sideBySide(ctx context.Context, n int, who login, send func(c *nats.Conn, i int)) {
	var all sync.WaitGroup
	connected := 0
	for range n {
		c, err := t.dial(who)
		if err != nil && connected > 0 {
			break // the bus refuses the key already
		}
		if err != nil {
			t.Errorf("connect for a flood: %v", err)
			return
		}
		connected++
		all.Go(func() {
			defer c.Close()
			for i := 0; ctx.Err() == nil; i++ {
				if send(c, i); !c.IsConnected() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}
