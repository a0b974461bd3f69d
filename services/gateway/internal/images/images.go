// Package images serves the content of images over HTTP: the archives that servers unpack, by their digest.
//
//	GET, HEAD /images/DIGEST   the archive, or one range of it
//	PUT       /images/DIGEST   store the archive of an image that CreateImage made known
//
// DIGEST is the sha256 of the archive in hexadecimal, which the manifest names.
//
// Guarantees:
//
//  1. Each chunk is checked against the manifest before a byte of it is sent or stored.
//  2. An answer that cannot be completed ends with an error of the connection: its length was announced.
//  3. A transfer holds one chunk in memory. The transfers at once have a bound, also those of one user, and each chunk
//     of a body has a time.
//  4. An upload that is cut stores whole chunks only, of an image that nothing installs before it is activated. The
//     same upload again completes it.
package images

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

// Handle adds the handlers. Wrap wraps each of them.
func Handle(mux *http.ServeMux, wrap func(http.Handler) http.Handler) {
	t := &turns{of: map[string]int{}}
	mux.Handle("GET /images/{digest}", wrap(t.limit(get)))
	mux.Handle("PUT /images/{digest}", wrap(t.limit(put)))
}

// limit runs a handler when its user may have one more transfer, and answers its error.
func (t *turns) limit(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := actor.From(r.Context()).Actor()
		err := t.take(user)
		if err == nil {
			defer t.leave(user)
			err = next(w, r)
		}
		if err != nil {
			failure.Write(w, r, err)
		}
	})
}

// find returns the image with the content that a request names.
func find(r *http.Request) (*imagev1.Image, error) {
	text := r.PathValue("digest")
	digest, err := hex.DecodeString(text)
	if err != nil || len(digest) != 32 || text != strings.ToLower(text) {
		return nil, fault.Refusef(fault.Invalid, code.Invalid,
			"%.80q is not a digest: want the sha256 of an archive, 64 digits in lower case", text)
	}
	found, err := client.Call[*catalogv1.GetImageResponse](r.Context(), actor.From(r.Context()),
		&catalogv1.GetImageRequest{Digest: digest})
	return found.GetImage(), err
}

// get sends an archive.
func get(w http.ResponseWriter, r *http.Request) error {
	i, err := find(r)
	if err != nil {
		return err
	}
	if err := checkWhole(r.Context(), i); err != nil {
		return err
	}
	h, digest := w.Header(), r.PathValue("digest")
	h.Set("Content-Type", "application/zstd")
	h.Set("Etag", `"`+digest+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable") // private: reading needs a token
	h.Set("Vary", "Authorization")
	if strings.Contains(r.Header.Get("Range"), ",") { // a chunk is read for each range, however small
		r.Header.Del("Range")
	}
	c := &content{ctx: r.Context(), image: i}
	http.ServeContent(w, r, "", time.Time{}, c)
	if c.err != nil {
		panic(http.ErrAbortHandler) // the header is sent, and the answer must not look complete
	}
	return nil
}

// checkWhole refuses an image when the catalog lacks a part of it.
func checkWhole(ctx context.Context, i *imagev1.Image) error {
	if i.GetFilled() {
		return nil
	}
	missing, err := missingOf(ctx, i)
	if err == nil && len(missing) > 0 {
		err = fault.Refusef(fault.Conflict, code.Incomplete, "image %s lacks %d of %d chunks", i.GetManifest().GetId(),
			len(missing), len(i.GetManifest().GetBlob().GetChunkDigests()))
	}
	return err
}

// missingOf returns the chunks that the catalog lacks of an image.
func missingOf(ctx context.Context, i *imagev1.Image) (map[uint32]bool, error) {
	r, err := client.Call[*catalogv1.MissingChunksResponse](ctx, actor.From(ctx),
		&catalogv1.MissingChunksRequest{ImageId: i.GetManifest().GetId()})
	missing := map[uint32]bool{}
	for _, n := range r.GetChunks() {
		missing[n] = true
	}
	return missing, err
}
