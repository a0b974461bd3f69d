package executor

import (
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// noteServer records in the journal whose it is.
func (x *Executor) noteServer(j *journal.Journal, id string) error {
	if was, err := j.Note(journal.NoteServer); err != nil || was == id {
		return err
	}
	return j.SetNote(journal.NoteServer, id)
}

// noteProgram records in the journal that the program of this image can read the journal's format.
func (x *Executor) noteProgram(j *journal.Journal) error {
	target, ok := x.process.IsLinked()
	if !ok {
		return nil
	}
	return j.Update(func(tx *journal.Tx) error { return tx.SetKnows(target) })
}

func (x *Executor) identity() (identity.Identity, error) {
	if a := x.cfg.Anonymous; a != nil {
		return identity.Identity{ServerID: a.Server, Cell: a.Cell}, nil
	}
	return identity.Read(x.root)
}

// checkedIdentity returns the identity where the key is readable as well; the bus requires both.
func (x *Executor) checkedIdentity() (identity.Identity, error) {
	who, err := x.identity()
	if err == nil && x.cfg.Anonymous == nil {
		err = identity.CheckKey(x.root)
	}
	return who, err
}

// jwt returns the JWT as it is on the disk now.
func (x *Executor) jwt() string {
	who, err := x.identity()
	if err != nil {
		return ""
	}
	return who.JWT
}

// linkConfig returns the config of a link without the functions that take what it reads and hears.
func (x *Executor) linkConfig(who identity.Identity, conn *bus.Conn, b link.Backend) link.Config {
	return link.Config{
		Conn: conn, Address: who.Address(), BootID: sysinfo.BootID(), SessionID: x.session,
		Hostname: sysinfo.Hostname(), Version: version.Version, Root: x.root, Backend: b,
		PollInterval: x.cfg.PollInterval, BeatInterval: x.cfg.BeatInterval, Log: x.cfg.Log,
	}
}

// dial connects, in the background when it is to persist: the executor works without the bus.
func (x *Executor) dial(who identity.Identity, persist bool) (*bus.Conn, error) {
	o := bus.Options{
		URL:        who.URL,
		InProcess:  x.cfg.InProcess,
		Name:       who.ServerID,
		Log:        x.cfg.Log,
		Persist:    persist,
		FirstWait:  topology.ServerFirstWait,
		MaxBackoff: topology.ServerBackoff,
	}
	if x.cfg.URL != "" {
		o.URL = x.cfg.URL
	}
	if x.cfg.Anonymous == nil {
		o.Credentials, o.API, o.TLS = identity.Credentials(x.root), topology.NodesAPI, who.TLS(x.root)
	}
	if x.cfg.AllowPlain {
		o.TLS.AllowPlain = true
	}
	return bus.Dial(o)
}
