package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/sockets"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Sockets are what agents listen on. They outlive the versions.
type Sockets struct {
	*sockets.Set
	specs   Specs
	journal *journal.Journal
	log     zerolog.Logger
}

// NewSockets returns sockets that the journal remembers.
func NewSockets(s Specs, j *journal.Journal, by supervise.Supervisor, log zerolog.Logger) *Sockets {
	note := func(agent string) string { return "sockets." + agent }
	set := sockets.New(sockets.Config{
		Recall: func(agent string) (marks []sockets.Mark, err error) {
			text, err := j.Note(note(agent))
			if err == nil && text != "" {
				err = json.Unmarshal([]byte(text), &marks)
			}
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
			return j.SetNote(note(agent), string(data))
		},
		Holders: by.Members,
		Log:     log,
	})
	return &Sockets{Set: set, specs: s, journal: j, log: log}
}

// Open opens what a version listens on. Other sockets of the agent stay open.
func (s *Sockets) Open(v Version) error {
	wants, err := s.specs.Sockets(v)
	if err != nil {
		return err
	}
	return s.Hold(v.Agent, wants)
}

// FreeFor closes the agent's sockets for a version that has none and listens by itself.
func (s *Sockets) FreeFor(v Version) error {
	if wants, err := s.specs.Sockets(v); err != nil || len(wants) > 0 {
		return err
	}
	return s.Keep(v.Agent, nil)
}

// Trim closes what the installed version of an agent does not listen on.
func (s *Sockets) Trim(agent string) error {
	now, err := s.journal.Instance(agent)
	if err != nil {
		return err
	}
	var wants []*imagev1.Socket
	if now != nil {
		if wants, err = s.specs.Sockets(Installed(now)); err != nil {
			return err
		}
	}
	return s.Keep(agent, wants)
}

// RegainAll takes sockets back from agents that an earlier executor started, before any of
// them is stopped.
func (s *Sockets) RegainAll(in journal.Inventory) {
	var agents []string
	for _, i := range in.Instances {
		agents = append(agents, i.Agent)
	}
	for _, r := range in.Changes {
		agents = append(agents, r.Agent)
	}
	slices.Sort(agents)
	for _, agent := range slices.Compact(agents) {
		if err := s.Regain(agent); err != nil {
			s.log.Error().Err(err).Str(logs.Agent, agent).Msg("sockets not taken back")
		}
	}
}

// handOver returns a function that returns what a process of the version is started with;
// nil when the version has no sockets.
func (s *Sockets) handOver(v Version) (func() ([]string, []*os.File, error), error) {
	wants, err := s.specs.Sockets(v)
	if err != nil || len(wants) == 0 {
		return nil, err
	}
	var names []string
	for _, w := range wants {
		names = append(names, w.GetName())
	}
	return func() ([]string, []*os.File, error) {
		files, err := s.Files(v.Agent, wants)
		if err != nil {
			err = fmt.Errorf("open its sockets: %w", err)
		}
		return names, files, err
	}, nil
}
