module example/driver

go 1.21
