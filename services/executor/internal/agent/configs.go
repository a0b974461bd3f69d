package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/render"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Configs are the rendered configurations of agents.
type Configs struct{ Specs Specs }

// Render renders the version's configuration from its image, which must be on the disk.
func (c Configs) Render(v Version) (configdir.Tree, error) {
	f := c.Specs.Facts(v)
	t, err := configdir.Render(f.Image, v.run(), render.Data{
		Agent: f.Agent, Version: f.Version, Server: f.Server, State: f.State, Image: f.Image,
		Config: c.Specs.Root.Config(v.Agent), Labels: f.Labels, Metadata: f.Metadata,
	})
	if err != nil {
		return t, fault.Refusef(fault.Invalid, code.BadTemplate, "%v", err)
	}
	return t, nil
}

// Link makes a rendered configuration the current one, wherever the link led before; no
// digest removes the link. It renders a damaged configuration again, without the network.
func (c Configs) Link(v Version, digest string) error {
	root := c.Specs.Root
	path := root.Config(v.Agent)
	if digest == "" {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, layout.SyncDir(filepath.Dir(path)))
		}
		return nil
	}
	dir := root.Rendered(v.Agent, digest)
	if configdir.Check(dir) != nil {
		tree, err := c.Render(v)
		if err != nil {
			return err
		}
		if tree.Digest() != digest {
			return fmt.Errorf("the configuration of %s cannot be rendered again as it was", v.Agent)
		}
		if err := tree.Place(dir); err != nil {
			return err
		}
	}
	return layout.Link(root.RenderedLink(digest), path)
}

// Check returns why an instance's configuration is not in place, or nil.
func (c Configs) Check(i *change.Instance) error {
	root := c.Specs.Root
	if i.Rendered == "" {
		return nil
	}
	if target, err := os.Readlink(root.Config(i.Agent)); err != nil || target != root.RenderedLink(i.Rendered) {
		return errors.New("its link to the configuration is not as it was")
	}
	return configdir.Check(root.Rendered(i.Agent, i.Rendered))
}

// Sweep deletes the rendered configurations of an agent, except one.
func (c Configs) Sweep(agent, keep string) error {
	dir := c.Specs.Root.Configs(agent)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		_, ours := layout.Digest(d.Name())
		ours = ours || strings.HasPrefix(d.Name(), layout.TemporaryPrefix)
		if ours && d.Name() != keep {
			err = errors.Join(err, imagedir.RemoveTree(filepath.Join(dir, d.Name())))
		}
	}
	if keep == "" {
		_ = os.Remove(dir) // only when it is empty
	}
	return err
}
