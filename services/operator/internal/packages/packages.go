// Package packages turns a file that others made into an image: a program, a tar archive, a Debian or an RPM package.
//
// The files of a package keep their paths, below the image instead of /. Its systemd unit says how it is run, its
// configuration files become templates, and what has no place in an image is noted, a line and a code each.
//
//	r, err := packages.Convert(ctx, packages.Options{File: "telegraf_1.30.0-1_amd64.deb", Build: o})
//
// Guarantees:
//
//  1. Nothing of a package is executed, and nothing is written before the whole of it was read and accepted.
//  2. The same file becomes the same blob and id on any machine.
//  3. A part that would change how the agent runs and cannot be kept is refused or noted, never dropped in silence.
package packages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

// Options say how a file becomes an image. What is empty follows from the file.
type Options struct {
	File   string
	Agent  string
	Unit   string // the systemd unit that says how a package is run
	Kind   agentv1.Kind
	Run    []string // the program and its arguments, in place of the unit's
	Recipe string   // a garrison.yaml that is used instead of a derived one
	Show   bool     // return the derived recipe instead of an image
	Build  image.BuildOptions
}

// Note is a part of the file that the image does not have, or has in another way.
type Note struct{ Code, What, Why string }

// Result is the image, and what of the file has no place in it.
type Result struct {
	Image  *imagev1.Manifest
	Recipe string // of an image that is only shown
	Notes  []Note
}

// software is what a file says about itself.
type software struct {
	format        string // deb or rpm; empty for others
	name, version string
	arch, summary string
	configs       []string // the configuration files
	scripts       []script
	needs         []string // other packages
	conflicts     []string
	capable       []string // files with capabilities
	owners        map[string]string
	archive       unpack.Archive
	tags          map[string]string
}

// script is a program that a package manager runs around an installation.
type script struct{ name, text string }

// conversion is one file that becomes an image.
type conversion struct {
	Options
	software
	content *unpack.Content
	root    tree
	notes   []Note
	configs map[string]bool // files that are templates
	baked   map[string]bool // files whose values are part of run
	named   map[string]bool // files that run names
}

// Convert builds the image of a file, until ctx is done. What it unpacked on the way is deleted in any case.
func Convert(ctx context.Context, o Options) (r Result, err error) {
	f, err := regular.Open(o.File)
	if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }()
	c := &conversion{Options: o, configs: map[string]bool{}, baked: map[string]bool{}, named: map[string]bool{}}
	unpackTo, err := c.read(ctx, f)
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "garrison-package-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.root.Root, err = os.OpenRoot(dir); err != nil {
		return r, err
	}
	defer func() { _ = c.root.Close() }()
	if err := unpackTo(); err != nil {
		return r, err
	}
	err = c.writeRecipe()
	r.Notes = c.notes
	if err != nil {
		return r, err
	}
	if c.Show {
		return r, c.showRecipe(&r)
	}
	c.Build.Dir = dir
	if c.format != "" {
		c.Build.Parts = []sbom.Part{sbom.Package(c.format, c.name, c.tags["package.version"], c.arch)}
	}
	r.Image, err = image.Build(ctx, c.Build)
	return r, err
}

// showRecipe reads the recipe as YAML.
func (c *conversion) showRecipe(r *Result) error {
	data, err := c.root.ReadFile(image.RecipeName)
	if err == nil && !bytes.HasPrefix(data, []byte("{")) {
		r.Recipe = string(data) // that of the file
		return nil
	}
	if err == nil {
		data, err = yaml.JSONToYAML(data)
	}
	r.Recipe = string(data)
	return err
}

// read reads a file as what its first bytes say it is, and returns what unpacks it.
func (c *conversion) read(ctx context.Context, f *os.File) (unpackTo func() error, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head, err = head[:n], nil
	whole := unpack.Archive{Name: c.File, From: f, Size: info.Size()}
	switch {
	case bytes.HasPrefix(head, []byte(arMagic)):
		c.software, err = readDeb(ctx, whole)
	case bytes.HasPrefix(head, []byte(leadMagic)):
		c.software, err = readRPM(whole)
	case isArchive(head):
		c.software = fromName(filepath.Base(c.File))
		c.archive = whole
	case bytes.HasPrefix(head, []byte("\x7fELF")), bytes.HasPrefix(head, []byte("#!")):
		c.software = fromName(filepath.Base(c.File))
		return func() error { return c.copyProgram(ctx, f) }, nil
	default:
		return nil, fault.Refusef(fault.Invalid, code.BadArchive, "%s is no directory, program (ELF or #!), tar "+
			"archive, Debian or RPM package", c.File).Try("garrison image build --help")
	}
	if err != nil {
		return nil, err
	}
	if c.content, err = c.archive.Scan(ctx); err != nil {
		return nil, err
	}
	top := "."
	if c.format == "" {
		top = c.content.Top()
	}
	return func() error { return c.content.Extract(ctx, c.root.Root, top) }, nil
}

// isArchive reports whether bytes are the start of a tar archive, or of a compressed file.
func isArchive(head []byte) bool {
	for _, magic := range unpack.Magic {
		if bytes.HasPrefix(head, magic) {
			return true
		}
	}
	const at = 257
	return len(head) > at && bytes.HasPrefix(head[at:], []byte("ustar"))
}

// nameVersion is the usual name of an archive: NAME-VERSION, and perhaps a platform behind a dot or a dash.
var nameVersion = regexp.MustCompile(`^(.+?)[-_]v?([0-9]+\.[0-9]+\.[0-9]+)(?:[.-][A-Za-z].*)?$`)

// fromName returns what the name of a file says.
func fromName(name string) software {
	for _, ext := range []string{".gz", ".xz", ".zst", ".bz2", ".tgz", ".txz", ".tbz2", ".tar"} {
		name = strings.TrimSuffix(name, ext)
	}
	s := software{name: name}
	if m := nameVersion.FindStringSubmatch(name); m != nil {
		s.name, s.version = m[1], m[2]
	}
	return s
}

func (c *conversion) copyProgram(ctx context.Context, f *os.File) error {
	name := c.agent()
	out, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, &unpack.Reader{Ctx: ctx, From: f})
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	if len(c.Run) == 0 && c.Kind != agentv1.Kind_KIND_FILES {
		c.Run = []string{name}
	}
	return err
}

// notName matches what the name of an agent cannot have.
var notName = regexp.MustCompile(`[^a-z0-9_-]+`)

// agent returns the name of the agent.
func (c *conversion) agent() string {
	return cmp.Or(c.Agent, strings.Trim(notName.ReplaceAllString(strings.ToLower(c.name), "-"), "-_"))
}

// writeRecipe writes the garrison.yaml of the image, unless the file brings one. JSON is YAML.
func (c *conversion) writeRecipe() error {
	if _, err := c.root.Stat(image.RecipeName); err == nil && c.format == "" && c.Recipe == "" {
		return c.ownRecipe()
	}
	if _, err := c.root.Lstat(image.RecipeName); err == nil {
		c.note(code.NotKept, image.RecipeName, "another takes its place")
		if err := c.root.RemoveAll(image.RecipeName); err != nil {
			return err
		}
	}
	recipe := map[string]any{"agent": c.agent(), "version": c.version, "description": c.summary, "tags": c.tags}
	err := c.describe(recipe)
	if c.Recipe != "" { // the templates and programs of the derived one are there for it
		c.notes, c.configs = nil, nil
		c.leftOut()
		data, err := regular.ReadFile(c.Recipe)
		if err != nil {
			return err
		}
		return c.root.WriteFile(image.RecipeName, data, 0o644)
	}
	if err != nil {
		return err
	}
	c.platform(recipe)
	c.leftOut()
	data, err := json.Marshal(recipe)
	if err != nil {
		return err
	}
	return c.root.WriteFile(image.RecipeName, data, 0o644)
}

// ownRecipe refuses options that the recipe in the archive answers.
func (c *conversion) ownRecipe() error {
	if c.Agent != "" || len(c.Run) > 0 || c.Kind != agentv1.Kind_KIND_UNSPECIFIED {
		return fault.Refusef(fault.Invalid, code.BadRecipe, "%s has a %s, which says the name, the kind and what is "+
			"run", c.File, image.RecipeName).Try("--recipe FILE instead")
	}
	return nil
}

// describe adds to the recipe how the agent is run.
func (c *conversion) describe(recipe map[string]any) error {
	u, err := c.findUnit()
	if err != nil {
		return err
	}
	kind := c.Kind
	if u == nil && len(c.Run) == 0 && kind != agentv1.Kind_KIND_FILES {
		c.Run = c.usual()
	}
	switch {
	case kind != agentv1.Kind_KIND_UNSPECIFIED:
	case u != nil && u.last("Service", "Type") == "oneshot":
		kind = agentv1.Kind_KIND_ONESHOT
	case u != nil || len(c.Run) > 0:
		kind = agentv1.Kind_KIND_DAEMON
	default:
		kind = agentv1.Kind_KIND_FILES
		c.note(code.NotMapped, "kind", "no unit and no program of the agent's name: it is of kind files; --run names "+
			"one")
	}
	recipe["kind"] = listing.Word(kind)
	if kind == agentv1.Kind_KIND_FILES {
		return nil
	}
	run, err := c.run(u)
	recipe["run"] = run
	return err
}

// usual returns the program of an archive that has the agent's name.
func (c *conversion) usual() []string {
	for _, name := range []string{c.agent(), "bin/" + c.agent(), "usr/bin/" + c.agent(), "usr/sbin/" + c.agent()} {
		if info, err := c.root.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			c.note(code.NotMapped, "run", "no unit says how it is started; "+name+" is, without arguments: --run")
			return []string{name}
		}
	}
	return nil
}

func (c *conversion) note(code, what, why string) {
	if n := (Note{code, what, why}); !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}

var (
	numbers = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)
	foreign = regexp.MustCompile(`[^A-Za-z0-9._+~-]+`)
	inner   = regexp.MustCompile(`[^A-Za-z0-9.]+`)
)

// imageVersion returns the version of an image for that of a package. 1.5.0 with the revision 1+b6 is 1.5.0_1+b6, which
// comes after 1.5.0; what comes before a release, 2.0~rc1, is its pre-release 2.0.0-rc1.
func imageVersion(upstream, revision string) string {
	upstream = strings.ReplaceAll(upstream, "^", "_")
	core, pre, isPre := strings.Cut(upstream, "~")
	if numbers.MatchString(core) && (isPre || revision == "") {
		core += strings.Repeat(".0", 2-strings.Count(core, "."))
	}
	if isPre {
		return core + "-" + strings.Trim(inner.ReplaceAllString(pre+"."+revision, "-"), "-.")
	}
	if revision == "" {
		return core
	}
	return foreign.ReplaceAllString(strings.ReplaceAll(core, "-", "_")+"_"+revision, "_")
}
