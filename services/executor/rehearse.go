package executor

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// Rehearsal is what an executor shows before it may take another one's place.
type Rehearsal struct {
	Version  string           `json:"version"`
	Journal  journal.Contents `json:"journal"`
	Document uint64           `json:"document"` // its generation; 0 when there is none
}

// Rehearse reads all of a journal, which must be a copy, reaches the bus as Run would, and
// reads the server's document. It changes nothing else.
func Rehearse(ctx context.Context, cfg Config, copied string) (Rehearsal, error) {
	r := Rehearsal{Version: version.Version}
	x := New(cfg)
	var err error
	if x.root, err = layout.New(cfg.Root); err != nil {
		return r, err
	}
	j, err := journal.OpenWhole(copied) // an empty one would pass
	if err != nil {
		return r, err
	}
	defer func() { _ = j.Close() }()
	if r.Journal, err = j.Examine(); err != nil {
		return r, err
	}
	who, err := x.who()
	if err != nil {
		return r, err
	}
	conn, err := x.dial(who, false)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	d, err := link.Document(ctx, conn, who.Address())
	if err != nil {
		return r, fmt.Errorf("read the document: %w", err)
	}
	r.Document = d.GetGeneration()
	return r, nil
}
