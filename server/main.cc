#include "server/process.h"

int main(int argc, char** argv) { return formwork::server::RunProcess(argc, argv, {}); }
