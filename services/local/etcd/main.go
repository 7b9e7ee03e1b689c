// Builds etcd from its own module, where no fitting etcd is installed. The version stands in go.mod.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
