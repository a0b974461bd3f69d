package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/sockets"
)

// newSockets gives a set of sockets that the journal remembers.
func (e *Engine) newSockets() *sockets.Set {
	note := func(agent string) string { return "sockets." + agent }
	return sockets.New(sockets.Config{
		Recall: func(agent string) (marks []sockets.Mark, err error) {
			err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
				if n := tx.Note(note(agent)); n != "" {
					return json.Unmarshal([]byte(n), &marks)
				}
				return nil
			})
			return marks, err
		},
		Remember: func(agent string, marks []sockets.Mark) error {
			data, err := json.Marshal(marks)
			if err != nil {
				return err
			}
			if len(marks) == 0 {
				data = nil
			}
			return e.cfg.Journal.Update(func(tx *journal.Tx) error { return tx.SetNote(note(agent), string(data)) })
		},
		Holders: e.cfg.Supervisor.Members,
		Log:     e.cfg.Log,
	})
}

// wanted gives the sockets that a side names, variables filled in.
func (e *Engine) wanted(s side) ([]*imagev1.Socket, error) {
	if s.image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil, nil
	}
	run, err := e.fill(s)
	return run.Sockets, err
}

// openSockets opens what the new version listens on before anything is touched. The old
// version's sockets stay open too until the change has ended.
func (c *change) openSockets() error {
	wants, err := c.wanted(c.newSide())
	if err != nil {
		return err
	}
	return c.sockets.Hold(c.rec.Agent, wants)
}

// freeSockets lets go of what the old version listened on, once it is stopped, for a
// new one that has no sockets and listens by itself.
func (c *change) freeSockets() error {
	if wants, err := c.wanted(c.newSide()); err != nil || len(wants) > 0 {
		return err
	}
	return c.sockets.Keep(c.rec.Agent, nil)
}

// trimSockets closes what the inventory's version of an agent does not listen on.
func (e *Engine) trimSockets(agent string) error {
	var now *journal.Instance
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		now, err = tx.Instance(agent)
		return err
	})
	if err != nil {
		return err
	}
	var wants []*imagev1.Socket
	if now != nil {
		if wants, err = e.wanted(sideOf(now)); err != nil {
			return err
		}
	}
	return e.sockets.Keep(agent, wants)
}

// regainSockets takes sockets back from agents that an earlier executor started, before
// any of them is stopped.
func (e *Engine) regainSockets(instances []*journal.Instance, changes []*journal.Change) {
	var agents []string
	for _, i := range instances {
		agents = append(agents, i.Agent)
	}
	for _, c := range changes {
		agents = append(agents, c.Agent)
	}
	slices.Sort(agents)
	for _, agent := range slices.Compact(agents) {
		if err := e.sockets.Regain(agent); err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, agent).Msg("sockets not taken back")
		}
	}
}

// socketFiles gives what a process of an agent is started with.
func (e *Engine) socketFiles(agent string, wants []*imagev1.Socket) func() ([]string, []*os.File, error) {
	var names []string
	for _, w := range wants {
		names = append(names, w.GetName())
	}
	return func() ([]string, []*os.File, error) {
		files, err := e.sockets.Files(agent, wants)
		if err != nil {
			err = fmt.Errorf("open its sockets: %w", err)
		}
		return names, files, err
	}
}
