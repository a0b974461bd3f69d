package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/access"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
	"github.com/garrison-fleet/garrison/services/registry"
	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

// Rehearsal describes a Garrison that runs, and on whose data this version is to take over.
type Rehearsal struct {
	Data       string // its data directory
	URL        string // of its bus; empty means the garrisond of Data
	Bus        topology.Bus
	AllowPlain bool
	Log        io.Writer
}

// rehearseWithin bounds a rehearsal. It folds the ledger four times, at tens of thousands of facts a second.
const rehearseWithin = time.Hour

// ErrRehearsal is the error of a version that must not take over.
var ErrRehearsal = errors.New("this version cannot take over: nothing was changed")

// views are the views of the services.
var views = []fold.Spec{registry.View, catalog.View, dispatcher.View, access.View}

// Rehearse shows whether this version can take over from one that runs: it reads the data directory, compares the bus,
// and folds the whole ledger for each service. Its user can only read. It leaves the views beside those in use, so that
// this version starts from them. It prints everything that it finds; ErrRehearsal says that something of it is wrong.
func Rehearse(ctx context.Context, r Rehearsal) error {
	ctx, cancel := context.WithTimeout(ctx, rehearseWithin)
	defer cancel()
	fmt.Fprintf(r.Log, "garrisond %s: topology %d, contract %d\n", version.Version, topology.Number, version.Contract)
	if err := r.checkData(); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	fmt.Fprintf(r.Log, "data: %s is as this version expects it\n", r.Data)
	if r.URL == "" {
		if err := HealthOf(ctx, r.Data); err != nil {
			return err
		}
		address, err := os.ReadFile(filepath.Join(r.Data, "address"))
		if err != nil {
			return fmt.Errorf("no address in the data directory; pass --url for a bus of its own: %w", err)
		}
		r.URL = "tls://" + strings.TrimSpace(string(address))
	}
	p := Provisioning{Data: r.Data, URL: r.URL, AllowPlain: r.AllowPlain, Log: r.Log}
	return p.as(ctx, topology.UserRehearsal, func(c *bus.Conn) error {
		plan, err := bus.NewStreams(c).Topology(ctx, r.Bus)
		if err != nil {
			return fmt.Errorf("the bus: %w", err)
		}
		printPlan(r.Log, plan)
		return r.foldAll(ctx, c)
	})
}

// checkData refuses a data directory that this version could not open. It writes nothing.
func (r Rehearsal) checkData() error {
	if _, err := checkData(r.Data); err != nil {
		return err
	}
	if err := ownsKeys(r.Data); err != nil {
		return err
	}
	if err := trust.CheckAuthority(filepath.Join(r.Data, "trust")); err != nil {
		return err
	}
	if _, err := trust.ReadContext(filepath.Join(r.Data, "operator.json")); err != nil {
		return err
	}
	reader := trust.ServiceCredentials(filepath.Join(r.Data, "trust"), topology.UserRehearsal)
	if _, err := os.Stat(reader); err != nil {
		return fmt.Errorf("the credentials for a rehearsal, which garrisond makes when it starts: %w", err)
	}
	return nil
}

// foldAll folds the ledger for each service, and prints what each finds.
func (r Rehearsal) foldAll(ctx context.Context, c *bus.Conn) error {
	wrong := false
	for _, s := range views {
		found, err := fold.Prepare(ctx, c, s, filepath.Join(r.Data, "views"))
		if err != nil {
			return fmt.Errorf("fold the ledger for %s: %w", s.Service, err)
		}
		fmt.Fprintf(r.Log, "%s: folded %d facts in %s, up to fact %d%s\n", s.Service, found.Folded,
			found.Took.Round(time.Millisecond), found.Position, counted("did not fit", found.Unfit))
		if len(found.Unread) > 0 {
			wrong = true
			fmt.Fprintf(r.Log, "%s: this version does not know all facts%s\n", s.Service,
				counted("not known", found.Unread))
		}
	}
	if wrong {
		return ErrRehearsal
	}
	fmt.Fprintf(r.Log, "good: with this version in its place, systemctl restart garrisond\n")
	return nil
}

// counted describes facts of a sort, for the end of a line.
func counted(what string, facts []*viewv1.FactCount) string {
	var b strings.Builder
	for _, n := range facts {
		fmt.Fprintf(&b, "; %d %s.%s %s, the first is fact %d", n.Count, n.Noun, n.Kind, what, n.First)
		if n.Unknown != "" {
			fmt.Fprintf(&b, " (%s)", n.Unknown)
		}
	}
	return b.String()
}
