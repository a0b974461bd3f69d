// Package apm turns an agent of Triton, as its image server has it, into an image of Garrison.
//
// Such an agent is an IMGAPI manifest of type other, and a compressed tar archive with one directory: the agent's, with
// a package.json, a file image_uuid, and often a service manifest of SMF, scripts that run around an installation, and
// templates of configuration. Its files become the image; its name and version are kept, and its UUID becomes a tag.
//
// Guarantees:
//
//  1. The archive is the one of the manifest: size, SHA-1 and image_uuid are compared before anything is built.
//  2. Nothing of the archive is executed, and nothing is written outside of the directory that it is unpacked into.
//  3. What has no place in an image is listed with the reason: scripts, services, templates, links and requirements.
package apm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

// UUIDTag is the tag of an image with its UUID in Triton.
const UUIDTag = "triton.uuid"

// Options say how an agent becomes an image.
type Options struct {
	Manifest, Archive string       // files
	Kind              agentv1.Kind // unspecified: a daemon when the archive has a service, else files
	Run               []string     // the program and its arguments, in place of the service's
	Recipe            string       // a garrison.yaml that is used instead of the derived one
	Build             image.BuildOptions
}

// Result is the image, and what of the agent has no place in it.
type Result struct {
	Image   *imagev1.Manifest
	Skipped []declare.Skipped
}

// conversion is one agent that becomes an image.
type conversion struct {
	Options
	manifest Manifest
	root     *os.Root
	dir      string
	pkg      packageJSON
	service  *service // nil without one
	skipped  []declare.Skipped
}

// Convert builds the image of an agent, until ctx is done. What it unpacked on the way is deleted in any case.
func Convert(ctx context.Context, o Options) (r Result, err error) {
	c := &conversion{Options: o}
	if c.manifest, err = ReadManifest(o.Manifest); err != nil {
		return r, err
	}
	if err := c.manifest.check(ctx, o.Archive); err != nil {
		return r, err
	}
	if c.dir, err = os.MkdirTemp("", "garrison-apm-"); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if c.root, err = os.OpenRoot(c.dir); err != nil {
		return r, err
	}
	defer func() { _ = c.root.Close() }()
	if err := c.read(ctx); err != nil {
		return r, err
	}
	if err := c.writeRecipe(); err != nil {
		return r, err
	}
	c.leaveOut()
	c.Build.Dir = c.dir
	if r.Image, err = image.Build(ctx, c.Build); err != nil {
		return r, err
	}
	r.Skipped = c.skipped
	return r, nil
}

// read unpacks the archive, and reads what says how the agent is run.
func (c *conversion) read(ctx context.Context) error {
	top, err := c.unpack(ctx)
	if err != nil {
		return err
	}
	id, err := c.root.ReadFile("image_uuid")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrong("%s is no agent of Triton: it has no %s/image_uuid", c.Archive, top)
	case err != nil:
		return err
	case !strings.EqualFold(strings.TrimSpace(string(id)), c.manifest.UUID):
		return wrong("%s is the image %.40q; the manifest is of %s", c.Archive, strings.TrimSpace(string(id)),
			c.manifest.UUID)
	case top != c.manifest.Name:
		return wrong("%s is of the agent %q; the manifest is of %q", c.Archive, top, c.manifest.Name)
	}
	data, err := c.root.ReadFile("package.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := json.Unmarshal(data, &c.pkg); err != nil {
			return wrong("%s: %s/package.json: %v", c.Archive, top, err)
		}
	}
	c.service, err = c.findService()
	return err
}

// unpack unpacks the archive without the directory that holds everything in it, and returns the name of that.
func (c *conversion) unpack(ctx context.Context) (top string, err error) {
	f, err := regular.Open(c.Archive)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	content, err := unpack.Archive{Name: c.Archive, From: f, Size: info.Size()}.Scan(ctx)
	if err != nil {
		return "", err
	}
	if top = content.Top(); top == "." {
		return "", wrong("%s is no agent of Triton: the archive of one has one directory", c.Archive)
	}
	return top, content.Extract(ctx, c.root, top)
}

// writeRecipe writes the garrison.yaml of the image. JSON is YAML.
func (c *conversion) writeRecipe() error {
	if c.Recipe != "" {
		data, err := regular.ReadFile(c.Recipe)
		if err != nil {
			return err
		}
		c.Build.Version = cmp.Or(c.Build.Version, c.manifest.Version)
		return c.root.WriteFile(image.RecipeName, data, 0o644)
	}
	kind := c.kind()
	recipe := map[string]any{
		"agent": c.manifest.Name, "version": c.manifest.Version, "kind": listing.Word(kind),
		"description": c.manifest.Description, "tags": c.tags(),
	}
	if kind == agentv1.Kind_KIND_DAEMON || kind == agentv1.Kind_KIND_ONESHOT {
		run, err := c.run()
		if err != nil {
			return err
		}
		recipe["run"] = run
	}
	data, err := json.Marshal(recipe)
	if err != nil {
		return err
	}
	return c.root.WriteFile(image.RecipeName, data, 0o644)
}

// kind returns how the agent is run.
func (c *conversion) kind() agentv1.Kind {
	switch usual, known := triton.UsualKind(c.manifest.Name); {
	case c.Kind != agentv1.Kind_KIND_UNSPECIFIED:
		return c.Kind
	case known:
		return usual
	case c.service != nil || len(c.Run) > 0:
		return agentv1.Kind_KIND_DAEMON
	}
	return agentv1.Kind_KIND_FILES
}

// tags returns the image's tags: the manifest's tags that are texts, and its UUID.
func (c *conversion) tags() map[string]string {
	out := map[string]string{UUIDTag: strings.ToLower(c.manifest.UUID)}
	for _, name := range slices.Sorted(maps.Keys(c.manifest.Tags)) {
		switch v := c.manifest.Tags[name].(type) {
		case string:
			out[name] = v
		case bool, float64:
			out[name] = fmt.Sprint(v)
		default:
			c.skip("tag "+name, "it is neither a text, a number nor a truth value")
		}
	}
	return out
}

func (c *conversion) skip(what, reason string) {
	c.skipped = append(c.skipped, declare.Skipped{Kind: "image", Name: what, Reason: reason})
}

// exists reports whether the agent has a file.
func (c *conversion) exists(name string) bool {
	if !filepath.IsLocal(name) {
		return false
	}
	info, err := c.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
