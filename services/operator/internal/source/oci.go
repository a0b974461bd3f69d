package source

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
)

// An artifact of an OCI registry is a source whose files are the layers of one manifest, each with its name as title,
// so that `oras pull` gets the directory of the source. The tag is moved when everything is there.
const (
	artifactScheme = "oci://"
	artifactType   = "application/vnd.garrison.source.v1"
	indexType      = "application/vnd.garrison.source.index.v1+json"
	imageType      = "application/vnd.garrison.image.v1+tar"
	defaultTag     = "latest"
	maxManifest    = 4 << 20 // what registries take
	mostImages     = 10_000  // of an artifact; each takes about 300 bytes of its manifest
)

// artifact is a place in an OCI registry.
type artifact struct {
	name  string // with its scheme
	tag   string
	repo  *remote.Repository
	files map[string]v1.Descriptor // by name; nil before they were read
}

// openArtifact returns the place that oci://HOST/REPOSITORY[:TAG] names. Credentials are those of docker login.
func openArtifact(name string) (*artifact, error) {
	repo, err := remote.NewRepository(strings.TrimPrefix(name, artifactScheme))
	if err == nil && strings.Contains(name, "@") {
		err = errors.New("a source has a tag, not a digest: its content changes")
	}
	if err != nil {
		return nil, unusable("%.200q names no repository of a registry: %v", name, err)
	}
	known, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, unusable("the credentials of docker login cannot be read: %v", err)
	}
	repo.PlainHTTP = isLoopback(repo.Reference.Host())
	repo.Client = &auth.Client{
		Client: newHTTPClient(0), Credential: credentials.Credential(known), Cache: auth.NewCache(),
	}
	tag := repo.Reference.Reference
	if tag == "" {
		tag = defaultTag
	}
	return &artifact{name: name, tag: tag, repo: repo}, nil
}

// isLoopback reports whether a host is this machine. As for docker, a registry on it may speak plain HTTP.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// list reads which files the artifact has. The error wraps errdef.ErrNotFound where there is no such artifact.
func (a *artifact) list(ctx context.Context) error {
	if a.files != nil {
		return nil
	}
	_, text, err := oras.FetchBytes(ctx, a.repo, a.tag, oras.FetchBytesOptions{MaxBytes: maxManifest})
	if err != nil {
		return err
	}
	var m v1.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.ArtifactType != artifactType {
		return fmt.Errorf("it is an artifact of another kind, %.60q", m.ArtifactType)
	}
	a.files = map[string]v1.Descriptor{}
	for _, l := range m.Layers {
		if err := l.Digest.Validate(); err != nil || l.Size < 0 {
			return fmt.Errorf("a layer has the digest %.80q and %d bytes", l.Digest, l.Size)
		}
		a.files[l.Annotations[v1.AnnotationTitle]] = l
	}
	return nil
}

func (a *artifact) open(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	if err := a.list(ctx); err != nil {
		return nil, 0, unusable("%s: %v", a.name, err)
	}
	file, ok := a.files[name]
	if !ok {
		return nil, 0, unusable("%s has no %s", a.name, name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	content, from, err := a.fetch(ctx, file, offset)
	if err != nil {
		cancel(nil)
		return nil, 0, unusable("%s: %v", a.name, err)
	}
	return newPatient(content, cancel, idleWithin), from, nil
}

// fetch returns a file from an offset on, or from its start where the registry knows no ranges, or only says so.
func (a *artifact) fetch(ctx context.Context, file v1.Descriptor, offset int64) (io.ReadCloser, int64, error) {
	content, err := a.repo.Blobs().Fetch(ctx, file)
	seeker, ok := content.(io.Seeker)
	if err != nil || !ok || offset == 0 {
		return content, 0, err
	}
	if _, err := seeker.Seek(offset, io.SeekStart); err == nil {
		return content, offset, nil
	}
	_ = content.Close()
	content, err = a.repo.Blobs().Fetch(ctx, file)
	return content, 0, err
}

// check refuses to replace what is no source of the key.
func (a *artifact) check(ctx context.Context, seed []byte) error {
	ctx, cancel := context.WithTimeout(ctx, indexWithin)
	defer cancel()
	err := a.list(ctx)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = checkOwn(ctx, a, a.name, seed)
	}
	if err != nil {
		return fault.Refusef(fault.Conflict, code.BadSource,
			"%s cannot be read, or is no source that this key signed, so it is not replaced: %v", a.name, err).
			Try("garrison source publish oci://HOST/REPOSITORY:NEW-TAG --key FILE")
	}
	return nil
}

// write pushes a source that is published in a directory. Files that the registry has are not sent again.
func (a *artifact) write(ctx context.Context, seed []byte, publish func(dir string) error) error {
	if err := a.check(ctx, seed); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := publish(dir); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, imagesDir, "*"+image.Extension))
	if err != nil {
		return err
	}
	if len(names) > mostImages {
		return fault.Refusef(fault.Invalid, code.TooLarge, "an artifact holds %d images at most, and %d are active",
			mostImages, len(names)).Try("garrison source publish oci://HOST/REPOSITORY --channel CHANNEL --key FILE")
	}
	var layers []v1.Descriptor
	for _, name := range append([]string{filepath.Join(dir, indexName)}, names...) {
		layer, err := a.push(ctx, dir, name)
		if err != nil {
			return unusable("%s: push %s: %v", a.name, filepath.Base(name), err)
		}
		layers = append(layers, layer)
	}
	if err := a.commit(ctx, layers); err != nil {
		return unusable("%s: %v", a.name, err)
	}
	return nil
}

// push stores a file of a directory in the registry, unless it is there.
func (a *artifact) push(ctx context.Context, dir, path string) (v1.Descriptor, error) {
	f, err := os.Open(path)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer func() { _ = f.Close() }()
	sum, err := digestOf(f)
	if err != nil {
		return v1.Descriptor{}, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return v1.Descriptor{}, err
	}
	title, err := filepath.Rel(dir, path)
	if err != nil {
		return v1.Descriptor{}, err
	}
	layer := v1.Descriptor{
		MediaType: imageType, Size: size, Digest: digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum)),
		Annotations: map[string]string{v1.AnnotationTitle: filepath.ToSlash(title)},
	}
	if title == indexName {
		layer.MediaType = indexType
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWithin(uint64(size)))
	defer cancel()
	if there, err := a.repo.Blobs().Exists(ctx, layer); err != nil || there {
		return layer, err
	}
	return layer, a.repo.Blobs().Push(ctx, layer, io.NewSectionReader(f, 0, size))
}

// commit stores the manifest of the layers, and moves the tag to it.
func (a *artifact) commit(ctx context.Context, layers []v1.Descriptor) error {
	ctx, cancel := context.WithTimeout(ctx, indexWithin)
	defer cancel()
	m, err := oras.PackManifest(ctx, a.repo, oras.PackManifestVersion1_1, artifactType, oras.PackManifestOptions{
		Layers:              layers,
		ManifestAnnotations: map[string]string{v1.AnnotationCreated: time.Now().UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return err
	}
	return a.repo.Tag(ctx, m, a.tag)
}
