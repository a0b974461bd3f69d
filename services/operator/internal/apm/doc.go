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
