package allinone

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	Data    string // its data directory
	URL     string // of its bus; empty means the garrisond of Data
	TLS     TLS
	Cluster Members // that it belongs to; none means that it is alone
	Lazy    bool    // its bus does not sync each write to disk
	Log     io.Writer
}

// rehearseWithin bounds a rehearsal. It folds the ledger four times, at tens of thousands of facts a second.
const rehearseWithin = time.Hour

// ErrRehearsal is the error of a version that must not take over.
var ErrRehearsal = errors.New("this version must not take over: keep the one that runs")

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
		var err error
		if r.URL, err = urlOf(ctx, r.Data); err != nil {
			return err
		}
	}
	p := Provisioning{Data: r.Data, URL: r.URL, AllowPlain: r.TLS.AllowPlain, Log: r.Log}
	return p.as(ctx, topology.UserRehearsal, func(c *bus.Conn) error {
		want := topology.Bus{Replicas: max(1, len(r.Cluster)), SyncsAlways: !r.Lazy}
		plan, err := bus.NewStreams(c).Topology(ctx, want)
		if err != nil {
			return fmt.Errorf("the bus: %w", err)
		}
		printPlan(r.Log, plan)
		return r.foldAll(ctx, c)
	})
}

// checkData refuses a data directory that this version could not open, with the settings. It changes nothing there.
func (r Rehearsal) checkData() error {
	if _, err := checkData(r.Data); err != nil {
		return err
	}
	if err := ownsKeys(r.Data); err != nil {
		return err
	}
	g := &Garrison{config: Config{Data: r.Data, Cluster: r.Cluster}}
	if err := errors.Join(g.checkMembership(), g.checkRoom(), r.openKeys()); err != nil {
		return err
	}
	if _, err := trust.ReadContext(filepath.Join(r.Data, "operator.json")); err != nil {
		return err
	}
	if r.TLS.Cert != "" {
		if _, err := tls.LoadX509KeyPair(r.TLS.Cert, r.TLS.Key); err != nil {
			return fmt.Errorf("the certificate of the bus: %w", err)
		}
	}
	reader := trust.ServiceCredentials(filepath.Join(r.Data, "trust"), topology.UserRehearsal)
	if _, err := os.Stat(reader); err != nil {
		return fmt.Errorf("the credentials for a rehearsal, which garrisond makes when it starts: %w", err)
	}
	return nil
}

// openKeys opens a copy of the keys: this version would sign anew what the one before signed otherwise.
func (r Rehearsal) openKeys() (err error) {
	copied, err := os.MkdirTemp(r.Data, ".rehearsal-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := copyTree(filepath.Join(r.Data, "trust"), copied); err != nil {
		return err
	}
	a, err := trust.OpenAuthority(copied)
	if err != nil {
		return err
	}
	_, signs := trust.OpenSigner(a.SignerDir())
	_, issues := trust.OpenIssuer(copied)
	_, seals := readSecretKey(a)
	return errors.Join(signs, issues, seals)
}

// copyTree copies files and directories, for this user alone.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), data, 0o600)
	})
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
