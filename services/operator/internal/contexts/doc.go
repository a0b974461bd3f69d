// Package contexts builds the commands of garrison context, which save connections to control planes.
package contexts
